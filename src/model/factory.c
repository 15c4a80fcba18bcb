/* The architectures of arch.def by name. */
#include <ctype.h>
#include <stdio.h>

#include "ingot/model.h"
#include "model/arch/arch.h"

#define IG_ARCH(name) extern const ig_arch ig_arch_##name;
#include "model/arch/arch.def"

static const ig_arch *const archs[] = {
#define IG_ARCH(name) &ig_arch_##name,
#include "model/arch/arch.def"
};
enum { ARCHS = sizeof archs / sizeof archs[0] };

const char *ig_arch_name(size_t i) { return i < ARCHS ? archs[i]->name : NULL; }
const char *ig_arch_description(size_t i) { return i < ARCHS ? archs[i]->description : NULL; }

bool ig_arch_is_trainable(size_t i) { return i < ARCHS && archs[i]->create; }

bool ig_arch_same_name(const char *written, const char *name) {
    if (tolower((unsigned char)written[0]) == 'o' && tolower((unsigned char)written[1]) == 'a')
        written += 2;
    for (;; written++, name++) {
        while (*written == '-' || *written == '_') written++;
        while (*name == '-' || *name == '_') name++;
        if (tolower((unsigned char)*written) != tolower((unsigned char)*name)) return false;
        if (!*name) return true;
    }
}

/* Whether the architecture is trainable, or only loaded from files. */
static bool is_of(const ig_arch *arch, ig_arch_kind kind) {
    return (arch->create != NULL) == (kind == IG_ARCH_TRAINED);
}

/* Registered architectures come after the built-in ones. */
static const ig_arch *arch_at(const ig_ctx *ctx, size_t i) {
    if (i < ARCHS) return archs[i];
    return ctx ? ig_arch_registered_at(ctx, i - ARCHS) : NULL;
}

const ig_arch *ig_arch_find(const ig_ctx *ctx, const char *name, ig_arch_kind kind) {
    char known[512] = "";
    size_t used = 0;
    const ig_arch *arch;
    for (size_t i = 0; name && (arch = arch_at(ctx, i)) != NULL; i++)
        if (is_of(arch, kind) && ig_arch_same_name(name, arch->name)) return arch;
    for (size_t i = 0; used < sizeof known && (arch = arch_at(ctx, i)) != NULL; i++)
        if (is_of(arch, kind))
            used += (size_t)snprintf(known + used, sizeof known - used, " %s", arch->name);
    (void)IG_FAIL(IG_ERR_MODEL, "unknown architecture %.64s; known:%s", name ? name : "(NULL)",
                  known);
    return NULL;
}

const char *ig_arch_resolve(const ig_ctx *ctx, const char *name) {
    const ig_arch *arch = ig_arch_find(ctx, name, IG_ARCH_TRAINED);
    return arch ? arch->name : NULL;
}
