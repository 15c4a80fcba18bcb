/* Programs: compiled from steps, run by submitting a recording. */
#include "backend/vulkan/program/program.h"

#include "backend/vulkan/program/chain.h"
#include "backend/vulkan/program/descriptors.h"
#include "backend/vulkan/program/fuse.h"
#include "backend/vulkan/shaders/shaders.h"

/* ---- choosing kernels ---- */

static const vk_entry *const families[] = {
#define NAME(family) vk_##family,
    VK_FAMILIES(NAME)
#undef NAME
};
enum { FAMILY_COUNT = sizeof families / sizeof families[0] };

uint64_t vk_dtypes(void) {
    uint64_t dtypes = 0;
    for (int f = 0; f < FAMILY_COUNT; f++)
        for (const vk_entry *e = families[f]; e->setup; e++) dtypes |= UINT64_C(1) << e->dtype;
    return dtypes;
}

/* Kernels compute offsets in 32 bits: no operand may exceed that. */
static bool fits(const ig_operand *o) {
    int64_t last = 0, count = 1;
    for (int d = 0; d < o->desc.shape.rank; d++) {
        const int64_t extent = o->desc.shape.dim[d];
        int64_t reach;
        if (__builtin_mul_overflow(count, extent, &count)) return false;
        if (extent == 0) return true;
        if (o->stride[d] < 0 || __builtin_mul_overflow(extent - 1, o->stride[d], &reach) ||
            __builtin_add_overflow(last, reach, &last))
            return false;
    }
    return last < INT32_MAX && count < INT32_MAX;
}

/* An output may alias an input if each element is read before it is written, by the same thread;
 * for updates, the planner guarantees it. */
static bool aliases_fit(const ig_step *step) {
    const uint32_t traits = ig_op_find(step->op)->traits;
    for (uint32_t i = 0; i < step->n_out; i++) {
        const ig_operand *out = &step->out[i];
        if (out->alias < 0) continue;
        if ((uint32_t)out->alias >= step->n_in) return false;
        if (traits & IG_UPDATES) continue;
        const ig_operand *in = &step->in[out->alias];
        if (!(traits & IG_ELEMENTWISE) || in->desc.dtype != out->desc.dtype ||
            !ig_operand_is_packed(in))
            return false;
    }
    return true;
}

bool vk_setup(const ig_step *step, vk_builder *b) {
    if (!ig_step_known(step) || step->n_out == 0 || !aliases_fit(step)) return false;
    if (vk_varies(step) && !vk_vary_fits(step)) return false;
    for (uint32_t i = 0; i < step->n_in + step->n_out; i++)
        if (!fits(ig_step_operand(step, i))) return false;
    const ig_dtype dtype = ig_step_operand(step, 0)->desc.dtype;
    for (int f = 0; f < FAMILY_COUNT; f++)
        for (const vk_entry *e = families[f]; e->setup; e++) {
            if (e->op != step->op || e->dtype != dtype) continue;
            const vk_builder before = *b;
            b->step = step;
            if (e->setup(step, b) && !b->too_large) return true;
            *b = before;
        }
    return false;
}

bool vk_can_run(const ig_backend_device *device, const ig_step *step) {
    vk_builder b = {.device = (const vk_device *)device};
    return vk_setup(step, &b);
}

uint64_t vk_scratch_bytes(const ig_backend_device *device, const ig_step *step) {
    vk_builder b = {.device = (const vk_device *)device};
    return vk_setup(step, &b) ? b.scratch_bytes : 0;
}

/* ---- emitting ---- */

/* The room for parameters, aligned for binding if needed. */
static uint64_t params_room(const vk_builder *b, const vk_dispatch *dispatch) {
    const uint64_t unit = b->device->has.addresses ? 16 : VK_BINDING_BYTES;
    return (dispatch->params_bytes + unit - 1) / unit * unit;
}

/* Deduplicates functions with equal attributes. */
static uint32_t numbers_of(vk_program *p, const vk_builder *b, vk_numbers_fn *make) {
    vk_numbers own = {.make = make};
    ig_step_attrs(b->step, own.attrs, sizeof own.attrs);
    for (uint32_t i = 0; i < p->n_numbers; i++)
        if (p->numbers[i].make == make &&
            memcmp(p->numbers[i].attrs, own.attrs, sizeof own.attrs) == 0)
            return i;
    p->numbers[p->n_numbers] = own;
    return p->n_numbers++;
}

static void store(vk_builder *b, const vk_dispatch *dispatch) {
    vk_program *p = b->program;
    vk_launch *l = &p->launches[p->n_launches++];
    *l = (vk_launch){.key = {.shader = dispatch->shader},
                     .first_ref = p->n_refs,
                     .n_refs = dispatch->n_refs,
                     .params_offset = p->params_bytes,
                     .numbers = UINT32_MAX,
                     .varying = UINT32_MAX,
                     .step = b->step_index};
    l->key.split = !b->device->has.addresses && vk_bindings_split(b->device, dispatch);
    memcpy(l->key.constant, dispatch->constant, sizeof l->key.constant);
    for (int i = 0; i < 3; i++) l->groups[i] = dispatch->groups[i] ? dispatch->groups[i] : 1;
    memcpy(&p->refs[p->n_refs], dispatch->ref, dispatch->n_refs * sizeof *p->refs);
    for (uint32_t i = 0; i < dispatch->n_refs; i++)
        if (p->n_buffers <= dispatch->ref[i].buffer) p->n_buffers = dispatch->ref[i].buffer + 1;
    p->n_refs += dispatch->n_refs;
    const size_t bytes = dispatch->params_bytes;
    if (bytes > 0) {
        memcpy(p->params + p->params_bytes, dispatch->params, bytes);
        memcpy(l->head, dispatch->params, bytes < sizeof l->head ? bytes : sizeof l->head);
    }
    p->params_bytes += params_room(b, dispatch);
    if (dispatch->numbers) l->numbers = numbers_of(p, b, dispatch->numbers);
    if (!vk_varies(b->step)) return;
    vk_vary_keep(&p->varying[p->n_varying], b->step);
    l->varying = p->n_varying++;
}

/* Rewrites a run's workgroup counts and parameters of a stored dispatch. */
static void rewrite(uint32_t *words, const vk_dispatch *dispatch) {
    assert(dispatch->params_bytes <= VK_VARYING_GROUPS * sizeof *words);
    for (int i = 0; i < 3; i++)
        words[VK_VARYING_GROUPS + i] = dispatch->groups[i] ? dispatch->groups[i] : 1;
    memcpy(words, dispatch->params, dispatch->params_bytes);
}

void vk_emit(vk_builder *b, const vk_dispatch *dispatch) {
    b->n_launches++;
    b->n_refs += dispatch->n_refs;
    b->n_numbers += dispatch->numbers != NULL;
    b->params_bytes += params_room(b, dispatch);
    b->n_varying += vk_varies(b->step);
    b->too_large |= !b->device->has.addresses && !vk_bindings_fit(b->device, dispatch);
    if (b->program) store(b, dispatch);
    if (b->rewrite) rewrite(b->rewrite, dispatch);
}

/* ---- running ---- */

static ig_status make_words(vk_program *p, const ig_slot *slots, uint32_t n_slots) {
    for (uint32_t i = 0; i < p->n_numbers; i++)
        p->numbers[i].make(p->numbers[i].attrs, slots, p->words + vk_numbers_at(p, i));
    for (uint32_t i = 0; i < p->n_varying; i++) {
        const vk_varying *v = &p->varying[i];
        if (v->slot >= n_slots)
            return IG_HOST_FAIL(p->device->base.host, IG_ERR_ARGUMENT,
                                "vulkan: an extent is in slot %u, of %u", v->slot, n_slots);
        vk_vary_write(p->device, v, slots[v->slot].i, p->words + vk_varying_at(i));
    }
    return IG_OK;
}

static size_t words_bytes(const vk_program *p) {
    return vk_numbers_at(p, p->n_numbers) * sizeof *p->words;
}

/* Remembers the buffers of a recording, so that most runs need no look at each. */
static void note_pieces(const vk_program *p, vk_recording *r, ig_backend_buffer *const *buffers) {
    memcpy(r->pieces, buffers, p->n_buffers * sizeof *buffers);
    r->returned = p->device->returned;
}

static bool is_for(const vk_program *p, vk_recording *r, ig_backend_buffer *const *buffers) {
    if (r->used == 0) return false;
    if (r->returned == p->device->returned &&
        memcmp(r->pieces, buffers, p->n_buffers * sizeof *buffers) == 0)
        return true;
    for (uint32_t i = 0; i < p->n_buffers; i++)
        if (r->bound[i] != (buffers[i] ? vk_piece_address(buffers[i]) : 0)) return false;
    note_pieces(p, r, buffers);
    return true;
}

static bool has_words(const vk_program *p, const vk_recording *r) {
    return words_bytes(p) == 0 || memcmp(r->words, p->words, words_bytes(p)) == 0;
}

static void copy_words(const vk_program *p, const vk_recording *r) {
    if (words_bytes(p) == 0) return;
    memcpy(vk_piece_mapped(r->numbers), p->words, words_bytes(p));
    memcpy(r->words, p->words, words_bytes(p));
}

/* A writable recording for these buffers: an idle one or one that already has the words; else the
 * least recently used, which is re-recorded. */
static vk_recording *choose(vk_program *p, ig_backend_buffer *const *buffers, bool *fresh) {
    vk_recording *oldest = &p->recordings[0];
    *fresh = false;
    for (vk_recording *r = p->recordings; r < p->recordings + VK_RECORDINGS; r++) {
        if (is_for(p, r, buffers) && (vk_is_done(p->device, r->value) || has_words(p, r))) return r;
        if (r->used < oldest->used) oldest = r;
    }
    *fresh = !is_for(p, oldest, buffers);
    return oldest;
}

static ig_status record_for(vk_program *p, vk_recording *r, ig_backend_buffer *const *buffers,
                            VkQueryPool times) {
    vk_device *d = p->device;
    if (!r->commands) IG_TRY(vk_commands_create(d, &r->commands, 1));
    if (!r->numbers && words_bytes(p) > 0)
        IG_TRY(vk_piece_alloc(d, VK_POOL_UPLOAD, words_bytes(p), &r->numbers));
    IG_TRY(vk_wait(d, r->value));
    r->used = 0; /* in case recording fails */
    for (uint32_t i = 0; i < p->n_buffers; i++)
        r->bound[i] = buffers[i] ? vk_piece_address(buffers[i]) : 0;
    note_pieces(p, r, buffers);
    return vk_record(p, r, buffers, times);
}

/* A profiled run, with a recording of its own. */
static ig_status submit_watched(vk_program *p, ig_backend_buffer *const *buffers) {
    vk_recording *r = &p->recordings[0];
    IG_TRY(vk_times_create(p));
    IG_TRY(record_for(p, r, buffers, p->times));
    copy_words(p, r);
    return vk_run_watched(p, r);
}

static ig_status vk_program_submit(ig_backend_program *program, ig_backend_buffer *const *buffers,
                                   uint32_t n_buffers, const ig_slot *slots, uint32_t n_slots) {
    vk_program *p = (vk_program *)program;
    vk_device *d = p->device;
    bool fresh;
    if (p->n_launches == 0) return IG_OK;
    if (n_buffers < p->n_buffers)
        return IG_HOST_FAIL(d->base.host, IG_ERR_ARGUMENT, "vulkan: %u buffers, of %u", n_buffers,
                            p->n_buffers);
    IG_TRY(make_words(p, slots, n_slots));
    if (vk_is_watched(d)) return submit_watched(p, buffers);
    vk_recording *r = choose(p, buffers, &fresh);
    if (fresh) IG_TRY(record_for(p, r, buffers, VK_NULL_HANDLE));
    if (fresh || !has_words(p, r)) {
        IG_TRY(vk_wait(d, r->value));
        copy_words(p, r);
    }
    IG_TRY(vk_submit_recording(p, r));
    r->used = ++p->runs;
    for (uint32_t i = 0; i < p->n_buffers; i++)
        if (buffers[i]) buffers[i]->last_use = d->submitted;
    return IG_OK;
}

/* ---- making a program ---- */

static void vk_program_destroy(ig_backend_program *program) {
    vk_program *p = (vk_program *)program;
    vk_device *d = p->device;
    const ig_host *host = d->base.host;
    for (vk_recording *r = p->recordings; r < p->recordings + VK_RECORDINGS; r++) {
        const bool idle =
            vk_wait(d, r->value) == IG_OK; /* a lost device takes everything with it */
        if (r->commands && idle) d->api.FreeCommandBuffers(d->handle, d->commands, 1, &r->commands);
        if (r->sets) d->api.DestroyDescriptorPool(d->handle, r->sets, NULL);
        vk_piece_free(d, r->numbers);
        host->free(host, r->words);
        host->free(host, r->pieces);
        host->free(host, r->bound);
    }
    if (p->times) d->api.DestroyQueryPool(d->handle, p->times, NULL);
    vk_piece_free(d, p->params_piece);
    host->free(host, p->params);
    host->free(host, p->words);
    host->free(host, p->varying);
    host->free(host, p->numbers);
    host->free(host, p->refs);
    host->free(host, p->launches);
    host->free(host, p);
}

/* An empty program with room for what was counted; NULL: out of memory. */
static vk_program *create(vk_device *d, const vk_builder *counted) {
    const ig_host *host = d->base.host;
    vk_program *p = host->alloc(host, 1, sizeof *p);
    if (!p) return NULL;
    p->base = (ig_backend_program){vk_program_submit, vk_program_destroy};
    p->device = d;
    p->launches = host->alloc(host, counted->n_launches, sizeof *p->launches);
    p->refs = host->alloc(host, counted->n_refs, sizeof *p->refs);
    p->numbers = host->alloc(host, counted->n_numbers, sizeof *p->numbers);
    p->varying = host->alloc(host, counted->n_varying, sizeof *p->varying);
    p->words = host->alloc(host,
                           (size_t)counted->n_numbers * VK_NUMBERS +
                               (size_t)counted->n_varying * VK_VARYING_WORDS,
                           sizeof *p->words);
    p->params = host->alloc(host, counted->params_bytes, 1);
    if (p->launches && p->refs && p->numbers && p->varying && p->words && p->params) return p;
    vk_program_destroy(&p->base);
    return NULL;
}

static ig_status refuse(const ig_backend_device *device, const ig_step *step, uint32_t i) {
    const char *dtype = step->n_in + step->n_out > 0
                            ? ig_dtype_name(ig_step_operand(step, 0)->desc.dtype)
                            : "nothing";
    return IG_HOST_FAIL(device->host, IG_ERR_UNSUPPORTED, "vulkan: step %u: no kernel for %s of %s",
                        i, ig_op_name(step->op), dtype);
}

/* Steps that are emitted together: one, or a chain with a generated shader. */
typedef struct unit {
    uint32_t first, count;
    uint32_t shader; /* of a chain */
} unit;

typedef struct units {
    const ig_step *steps;
    vk_join *joins; /* one per step */
    unit *at;
    uint32_t count;
} units;

static const ig_step *step_of(const units *u, uint32_t i) {
    return ig_step_at(u->steps, u->at[i].first);
}

static void emit(vk_builder *b, const units *u, uint32_t i) {
    const unit *own = &u->at[i];
    b->step_index = own->first;
    b->join = u->joins[own->first];
    if (b->join.absorbed) return;
    if (own->count > 1)
        vk_chain_emit(b, u->steps, own->first, own->count, own->shader);
    else
        (void)vk_setup(step_of(u, i), b); /* cannot fail: it was checked */
}

/* Dynamic steps are not fused. */
static bool any_varies(const ig_step *steps, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (vk_varies(ig_step_at(steps, i))) return true;
    return false;
}

static ig_status check_steps(const ig_backend_device *device, const ig_step *steps,
                             uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const ig_step *step = ig_step_at(steps, i);
        vk_builder b = {.device = (const vk_device *)device};
        if (!vk_setup(step, &b)) return refuse(device, step, i);
        if (b.scratch_bytes > step->scratch_bytes)
            return IG_HOST_FAIL(device->host, IG_ERR_ARGUMENT,
                                "vulkan: step %u: %s has %llu bytes of scratch and needs %llu", i,
                                ig_op_name(step->op), (unsigned long long)step->scratch_bytes,
                                (unsigned long long)b.scratch_bytes);
    }
    return IG_OK;
}

/* The first step from `first` on that is fused into another one; `count`: none. */
static uint32_t next_absorbed(const units *u, uint32_t first, uint32_t count) {
    while (first < count && !u->joins[first].absorbed) first++;
    return first;
}

/* Groups the steps into units. With `fused`, matmuls absorb steps and chains get generated
 * shaders. */
static ig_status cut_units(vk_device *d, units *u, uint32_t count, bool fused) {
    if (fused) vk_joins_find(u->steps, count, u->joins);
    for (uint32_t first = 0; first < count;) {
        unit *own = &u->at[u->count++];
        *own = (unit){.first = first, .count = 1};
        if (fused && !u->joins[first].absorbed)
            own->count = vk_chain_length(u->steps, first, next_absorbed(u, first, count));
        if (own->count > 1) {
            vk_written shader;
            IG_TRY(vk_chain_write(d->base.host, &d->pipelines.shaders[VK_SHADER_chain], u->steps,
                                  first, own->count, &shader));
            IG_TRY(vk_pipelines_write(d, shader, &own->shader));
        }
        first += own->count;
    }
    return IG_OK;
}

/*
 * Orders units for the fewest barriers: first the first units of all chains of a level, then the
 * second ones, and so on.
 *
 *     units of a level   aaa bb c        chains a, b, c
 *     order              a b c  a b  a   with a barrier at each gap
 */
static void emit_level(vk_builder *b, const units *u, uint32_t first, uint32_t end) {
    for (uint32_t turn = 0, left = end - first; left > 0; turn++)
        for (uint32_t i = first, place = 0; i < end; i++, place++) {
            if (i > first && step_of(u, i - 1)->chain != step_of(u, i)->chain) place = 0;
            if (place != turn) continue;
            emit(b, u, i);
            left--;
        }
}

static void emit_all(vk_builder *b, const units *u) {
    for (uint32_t first = 0, end; first < u->count; first = end) {
        end = first + 1;
        while (end < u->count && step_of(u, end)->level == step_of(u, first)->level) end++;
        emit_level(b, u, first, end);
    }
}

/* Computes everything that does not change between runs. */
static ig_status settle(vk_program *p) {
    vk_device *d = p->device;
    const ig_host *host = d->base.host;
    vk_pipeline_key *keys = host->alloc(host, p->n_launches, sizeof *keys);
    if (!keys) return IG_HOST_FAIL(host, IG_ERR_MEMORY, "vulkan: %u dispatches", p->n_launches);
    for (uint32_t i = 0; i < p->n_launches; i++) keys[i] = p->launches[i].key;
    const ig_status status = vk_pipelines_make(d, keys, p->n_launches);
    host->free(host, keys);
    IG_TRY(status);
    for (vk_launch *l = p->launches; l < p->launches + p->n_launches; l++)
        l->pipeline = vk_pipelines_find(d, &l->key);
    IG_TRY(vk_piece_alloc(d, VK_POOL_DEVICE, p->params_bytes, &p->params_piece));
    IG_TRY(vk_write(&d->base, p->params_piece, 0, p->params, p->params_bytes));
    host->free(host, p->params);
    p->params = NULL;
    for (vk_recording *r = p->recordings; r < p->recordings + VK_RECORDINGS; r++) {
        r->bound = host->alloc(host, p->n_buffers, sizeof *r->bound);
        r->pieces = host->alloc(host, p->n_buffers, sizeof *r->pieces);
        r->words = host->alloc(host, words_bytes(p), 1);
        if (!r->bound || !r->pieces || !r->words)
            return IG_HOST_FAIL(host, IG_ERR_MEMORY, "vulkan: %u buffers", p->n_buffers);
    }
    return IG_OK;
}

static ig_status make_program(vk_device *d, const units *u, ig_backend_program **out) {
    vk_builder b = {.device = d};
    emit_all(&b, u);
    if (b.too_large)
        return IG_HOST_FAIL(d->base.host, IG_ERR_UNSUPPORTED,
                            "vulkan: steps that go together touch more than the device can show");
    vk_program *p = create(d, &b);
    if (!p) return IG_HOST_FAIL(d->base.host, IG_ERR_MEMORY, "vulkan: %u dispatches", b.n_launches);
    b = (vk_builder){.device = d, .program = p};
    emit_all(&b, u);
    const ig_status status = p->n_launches > 0 ? settle(p) : IG_OK;
    if (status == IG_OK)
        *out = &p->base;
    else
        vk_program_destroy(&p->base);
    return status;
}

static ig_status compile(ig_backend_device *device, const ig_step *steps, uint32_t count,
                         bool fused, ig_backend_program **out) {
    const ig_host *host = device->host;
    vk_device *d = (vk_device *)device;
    IG_TRY(check_steps(device, steps, count));
    units u = {.steps = steps,
               .joins = host->alloc(host, count, sizeof *u.joins),
               .at = host->alloc(host, count, sizeof *u.at)};
    ig_status status = IG_OK;
    if (!u.at || !u.joins) status = IG_HOST_FAIL(host, IG_ERR_MEMORY, "vulkan: %u steps", count);
    if (status == IG_OK) status = cut_units(d, &u, count, fused && !any_varies(steps, count));
    if (status == IG_OK) status = make_program(d, &u, out);
    host->free(host, u.at);
    host->free(host, u.joins);
    return status;
}

ig_status vk_compile(ig_backend_device *device, const ig_step *steps, uint32_t count, ig_blob saved,
                     ig_progress *progress, ig_backend_program **out) {
    (void)progress;
    if (saved.size > 0) IG_TRY(vk_pipelines_load((vk_device *)device, saved));
    return compile(device, steps, count, true, out);
}

/* All pipelines of the device so far: the next program may share some. */
ig_status vk_save(const ig_backend_program *program, ig_blob *out) {
    return vk_pipelines_save(((const vk_program *)program)->device, out);
}

ig_status vk_compile_plain(ig_backend_device *device, const ig_step *steps, uint32_t count,
                           ig_blob saved, ig_progress *progress, ig_backend_program **out) {
    (void)saved, (void)progress;
    return compile(device, steps, count, false, out);
}
