/*
 * Modules: a tree of names with parameters at its leaves.
 *
 * Each module lists all parameters below it under paths that start at itself:
 *
 *     net       layers.0.weight  layers.0.bias  head.weight
 *     layers    0.weight         0.bias
 *     0         weight           bias
 *
 * Adding a module or parameter inserts its entries into the lists of all ancestors, at
 * the position of its owner.  Everything that can fail happens first, in the spare room
 * after each list; the entries are then rotated into place without allocating.
 */
#include "nn/module.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ingot/grad.h"
#include "ingot/ops.h"

/* A child module, or a parameter. */
typedef struct member {
    ig_module *child; /* owned; NULL: a parameter */
    ig_tensor *param; /* owned; NULL: a child */
    const char *name; /* borrowed from the child, or from the list of parameters */
} member;

struct ig_module {
    ig_ctx *ctx;
    ig_forward_fn *forward;
    void *data;
    void *own_data; /* NULL: the caller owns the data */
    bool training;
    ig_dtype compute;

    ig_module *parent;
    char *name; /* name in the parent; owned */

    member *members;
    size_t n_members, member_capacity;

    ig_param *params; /* paths owned, tensors borrowed; zeroed beyond n_params */
    size_t n_params, param_capacity;
};

static const ig_allocator *memory_of(const ig_module *module) {
    return ig_ctx_allocator(module->ctx);
}

static size_t member_params(const member *m) { return m->child ? m->child->n_params : 1; }

/* ---- Names ---- */

/* "name" or "name.path"; NULL: out of memory. */
static char *join(const ig_allocator *memory, const char *name, const char *path) {
    if (!path) return ig_copy_text(memory, name);
    const size_t bytes = strlen(name) + strlen(path) + 2;
    char *joined = ig_alloc(memory, bytes, 1);
    if (joined) snprintf(joined, bytes, "%s.%s", name, path);
    return joined;
}

static ig_status check_name(const ig_module *module, const char *name) {
    if (!name || !*name) return IG_FAIL(IG_ERR_ARGUMENT, "module: a name is empty");
    if (strchr(name, '.'))
        return IG_FAIL(IG_ERR_ARGUMENT, "module: name \"%s\": dots are not allowed", name);
    for (size_t i = 0; i < module->n_members; i++)
        if (strcmp(module->members[i].name, name) == 0)
            return IG_FAIL(IG_ERR_ARGUMENT, "module: there is a \"%s\" already", name);
    return IG_OK;
}

/* ---- The lists of parameters: prepare, then either commit or drop ---- */

/* Frees the spare entries. */
static void drop(ig_module *module, size_t count) {
    for (ig_module *m = module; m; m = m->parent) {
        const size_t room = m->param_capacity - m->n_params;
        for (size_t i = 0; i < count && i < room; i++) {
            ig_param *spare = &m->params[m->n_params + i];
            ig_free(memory_of(m), (char *)spare->path);
            *spare = (ig_param){0};
        }
    }
}

/*
 * Writes `count` entries, those of a child or the single parameter `added`, after the lists of
 * `module` and all its ancestors; paths grow by a name on each level.
 */
static ig_status prepare(ig_module *module, const char *name, const ig_param *added, size_t count) {
    const ig_param *below = added;
    for (ig_module *m = module; m; m = m->parent) {
        if (!IG_GROW(memory_of(m), m->params, &m->param_capacity, m->n_params + count)) goto out;
        ig_param *spare = m->params + m->n_params;
        for (size_t i = 0; i < count; i++) {
            spare[i].tensor = below[i].tensor;
            spare[i].path = join(memory_of(m), name, below[i].path);
            if (!spare[i].path) goto out;
        }
        below = spare;
        name = m->name;
    }
    return IG_OK;
out:
    drop(module, count);
    return IG_FAIL(IG_ERR_MEMORY, "module: no room for the paths of %zu parameters", count);
}

static void reverse(ig_param *params, size_t count) {
    for (size_t i = 0, j = count; i + 1 < j; i++) {
        const ig_param swap = params[i];
        params[i] = params[--j];
        params[j] = swap;
    }
}

/* The end of the first `n` members' entries in the list. */
static size_t end_of(const ig_module *module, size_t n) {
    size_t end = 0;
    for (size_t i = 0; i < n; i++) end += member_params(&module->members[i]);
    return end;
}

static size_t index_of(const ig_module *parent, const ig_module *child) {
    size_t i = 0;
    while (parent->members[i].child != child) i++;
    return i;
}

/* Moves the spare entries into the lists. The new member is not counted yet, nor are its
 * parameters in the ancestors' members, so ends are those before the change. */
static void commit(ig_module *module, size_t count) {
    size_t place = module->n_params;
    for (ig_module *m = module; m; m = m->parent) {
        /* [old before place][old after][new] -> [old before][new][old after] */
        const size_t after = m->n_params - place;
        reverse(m->params + place, after);
        reverse(m->params + m->n_params, count);
        reverse(m->params + place, after + count);
        if (m->parent) place = end_of(m->parent, index_of(m->parent, m) + 1);
        m->n_params += count;
    }
}

/* Error messages name a tensor by its path from the root, which is the entry prepared there. */
static ig_status rename_tensors(const ig_module *module, const ig_param *added, size_t count) {
    const ig_module *root = module;
    while (root->parent) root = root->parent;
    const ig_param *named = root->params + root->n_params;
    for (size_t i = 0; i < count; i++) {
        const ig_status status = ig_tensor_set_name(named[i].tensor, named[i].path);
        if (status == IG_OK) continue;
        /* Restores the old names; on failure the longer name stays. */
        while (i-- > 0)
            if (ig_tensor_set_name(added[i].tensor, added[i].path) != IG_OK) break;
        return status;
    }
    return IG_OK;
}

/* Adds new parameters as `name` of `module` to all lists, or to none. */
static ig_status enter(ig_module *module, const char *name, const ig_param *added, size_t count) {
    if (count == 0) return IG_OK;
    IG_TRY(prepare(module, name, added, count));
    const ig_status status = rename_tensors(module, added, count);
    if (status == IG_OK)
        commit(module, count);
    else
        drop(module, count);
    return status;
}

/* ---- Create and destroy ---- */

/* NULL: out of memory. */
static ig_module *module_new(ig_ctx *ctx, ig_forward_fn *forward) {
    ig_module *module = ig_alloc(ig_ctx_allocator(ctx), 1, sizeof *module);
    if (!module) return NULL;
    module->ctx = ctx;
    module->forward = forward;
    module->training = true;
    return module;
}

ig_status ig_module_create(ig_ctx *ctx, ig_forward_fn *forward, void *data, ig_module **out) {
    if (!ctx || !out) return IG_FAIL(IG_ERR_ARGUMENT, "module: no context, or no place for it");
    ig_module *module = module_new(ctx, forward);
    if (!module) return IG_FAIL(IG_ERR_MEMORY, "module: no memory");
    module->data = data;
    *out = module;
    return IG_OK;
}

ig_status ig_module_create_with(ig_ctx *ctx, ig_forward_fn *forward, size_t data_bytes,
                                ig_module **out) {
    if (!ctx || !out) return IG_FAIL(IG_ERR_ARGUMENT, "module: no context, or no place for it");
    ig_module *module = module_new(ctx, forward);
    void *data = ig_alloc(ig_ctx_allocator(ctx), 1, data_bytes);
    if (!module || !data) {
        ig_free(ig_ctx_allocator(ctx), data);
        ig_free(ig_ctx_allocator(ctx), module);
        return IG_FAIL(IG_ERR_MEMORY, "module: no memory for it and %zu bytes of data", data_bytes);
    }
    module->data = module->own_data = data;
    *out = module;
    return IG_OK;
}

void ig_module_destroy(ig_module *module) {
    if (!module || module->parent) return; /* a child is destroyed with its parent */
    const ig_allocator *memory = memory_of(module);
    for (size_t i = module->n_members; i-- > 0;) {
        member *m = &module->members[i];
        ig_tensor_release(m->param);
        if (m->child) m->child->parent = NULL;
        ig_module_destroy(m->child);
    }
    for (size_t i = 0; i < module->n_params; i++) ig_free(memory, (char *)module->params[i].path);
    ig_free(memory, module->params);
    ig_free(memory, module->members);
    ig_free(memory, module->name);
    ig_free(memory, module->own_data);
    ig_free(memory, module);
}

/* ---- Adding ---- */

static void set_compute(ig_module *module, ig_dtype dtype) {
    module->compute = dtype;
    for (size_t i = 0; i < module->n_members; i++)
        if (module->members[i].child) set_compute(module->members[i].child, dtype);
}

static ig_status check_child(const ig_module *parent, const char *name, const ig_module *child) {
    if (!parent || !child)
        return IG_FAIL(IG_ERR_ARGUMENT, "module: \"%s\": no parent or no child", name ? name : "");
    IG_TRY(check_name(parent, name));
    if (child->parent)
        return IG_FAIL(IG_ERR_ARGUMENT, "module: \"%s\" belongs to a module already, as \"%s\"",
                       name, child->name);
    if (child->ctx != parent->ctx)
        return IG_FAIL(IG_ERR_ARGUMENT, "module: \"%s\" is of another context", name);
    for (const ig_module *m = parent; m; m = m->parent)
        if (m == child)
            return IG_FAIL(IG_ERR_ARGUMENT, "module: \"%s\" would contain itself", name);
    return IG_OK;
}

static ig_status grow_members(ig_module *module) {
    if (IG_GROW(memory_of(module), module->members, &module->member_capacity,
                module->n_members + 1))
        return IG_OK;
    return IG_FAIL(IG_ERR_MEMORY, "module: no room for %zu members", module->n_members + 1);
}

ig_status ig_module_add(ig_module *parent, const char *name, ig_module *child) {
    IG_TRY(check_child(parent, name, child));
    IG_TRY(grow_members(parent));
    char *own_name = ig_copy_text(memory_of(parent), name);
    if (!own_name) return IG_FAIL(IG_ERR_MEMORY, "module: no memory for the name \"%s\"", name);

    const ig_status status = enter(parent, name, child->params, child->n_params);
    if (status != IG_OK) {
        ig_free(memory_of(parent), own_name);
        return status;
    }
    child->parent = parent;
    child->name = own_name;
    parent->members[parent->n_members++] = (member){.child = child, .name = own_name};
    if (!parent->training) ig_module_set_training(child, false);
    if (parent->compute != child->compute) set_compute(child, parent->compute);
    return IG_OK;
}

ig_status ig_module_add_param(ig_module *module, const char *name, ig_desc desc, ig_tensor **out) {
    if (!module || !out) return IG_FAIL(IG_ERR_ARGUMENT, "module: no module, or no place");
    IG_TRY(check_name(module, name));
    IG_TRY(grow_members(module));

    ig_param param = {0};
    ig_status status = ig_tensor_create(module->ctx, desc, &param.tensor);
    const bool stored_only = desc.dtype == IG_F16 || desc.dtype == IG_BF16;
    if (status == IG_OK && !stored_only) status = ig_tensor_require_grad(param.tensor);
    if (status == IG_OK) status = enter(module, name, &param, 1);
    if (status != IG_OK) {
        ig_tensor_release(param.tensor);
        return status;
    }
    const char *kept = module->params[module->n_params - 1].path;
    module->members[module->n_members++] = (member){.param = param.tensor, .name = kept};
    *out = param.tensor;
    return IG_OK;
}

/* ---- Asking and calling ---- */

ig_tensor *ig_module_call(ig_module *module, ig_tensor *x) {
    if (!module)
        return ig_poison(ig_tensor_ctx(x), IG_FAIL(IG_ERR_ARGUMENT, "module_call: no module"));
    const char *name = module->name ? module->name : "";
    if (!module->forward)
        return ig_poison(
            module->ctx,
            IG_FAIL(IG_ERR_ARGUMENT, "module_call: module \"%s\" has no forward function", name));
    ig_tensor *y = module->forward(module, x);
    if (y) return y;
    return ig_poison(module->ctx,
                     IG_FAIL(IG_ERR_ARGUMENT,
                             "module_call: the forward function of module \"%s\" gave NULL", name));
}

void *ig_module_data(const ig_module *module) { return module->data; }

ig_ctx *ig_module_ctx(const ig_module *module) { return module->ctx; }

void ig_module_set_training(ig_module *module, bool training) {
    module->training = training;
    for (size_t i = 0; i < module->n_members; i++)
        if (module->members[i].child) ig_module_set_training(module->members[i].child, training);
}

bool ig_module_training(const ig_module *module) { return module->training; }

ig_status ig_module_set_compute_dtype(ig_module *module, ig_dtype dtype) {
    if (!module) return IG_FAIL(IG_ERR_ARGUMENT, "set_compute: no module");
    if (dtype == IG_F16)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "f16: gradients vanish in f16 without a loss scaler, and there is none; "
                       "use bf16 or f32");
    if (dtype != IG_F32 && dtype != IG_BF16)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: layers multiply in f32 or bf16", ig_dtype_name(dtype));
    set_compute(module, dtype);
    return IG_OK;
}

ig_dtype ig_module_compute_dtype(const ig_module *module) { return module->compute; }

size_t ig_module_child_count(const ig_module *module) {
    size_t count = 0;
    for (size_t i = 0; i < module->n_members; i++) count += module->members[i].child != NULL;
    return count;
}

ig_module *ig_module_child(const ig_module *module, size_t i) {
    for (size_t m = 0; m < module->n_members; m++)
        if (module->members[m].child && i-- == 0) return module->members[m].child;
    return NULL;
}

size_t ig_module_param_count(const ig_module *module) { return module->n_params; }

ig_param ig_module_param(const ig_module *module, size_t i) {
    return i < module->n_params ? module->params[i] : (ig_param){0};
}

int64_t ig_module_element_count(const ig_module *module) {
    int64_t count = 0;
    for (size_t i = 0; i < module->n_params; i++)
        count += ig_shape_count(ig_tensor_desc(module->params[i].tensor).shape);
    return count;
}

ig_tensor *ig_module_find(const ig_module *module, const char *path) {
    for (size_t i = 0; path && i < module->n_params; i++)
        if (strcmp(module->params[i].path, path) == 0) return module->params[i].tensor;
    return NULL;
}
