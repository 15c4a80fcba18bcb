/*
 * Model plugins with one thing wrong each, for the tests.  ARCH is what:
 *
 *   SOUND      nothing: a model that predicts the same for every token
 *   NO_ENTRY   no ig_arch_entry()
 *   EMPTY      an entry without an architecture
 *   ENDLESS    an entry that never says that it was the last
 *   NEWER_ABI  a table of an ABI that is not yet
 *   HALF       a hidden() without a head(), beside a sound architecture
 *   EXITS      a constructor that exits with 0
 *   CRASHES    a constructor that aborts
 */
#include <ingot/arch.h>
#include <stdlib.h>

enum { SOUND, NO_ENTRY, EMPTY, ENDLESS, NEWER_ABI, HALF, EXITS, CRASHES };

static ig_status create(ig_ctx *ctx, const ig_lm_config *c, ig_module *root, void **out) {
    (void)ctx, (void)c, (void)root, (void)out;
    return IG_FAIL(IG_ERR_UNSUPPORTED, "sound: is not made to be created");
}
static ig_tensor *hidden(void *model, const ig_ubatch *rows) {
    (void)model;
    return ig_ubatch_ids(rows);
}
static ig_tensor *head(void *model, ig_tensor *h) {
    (void)model;
    return h;
}

#if ARCH == 6 || ARCH == 7
__attribute__((constructor)) static void at_load(void) {
    if (ARCH == EXITS) exit(0);
    abort();
}
#endif

#define TABLE(name_, ...)                                                          \
    {                                                                              \
        .struct_size = sizeof(ig_arch_desc), .name = name_,                        \
        .defaults = {.d_model = 8, .n_layers = 1, .ctx_len = 8}, .create = create, \
        .hidden = hidden, __VA_ARGS__                                              \
    }
static const ig_arch_desc sound = TABLE("sound", .abi = IG_ARCH_ABI, .head = head),
                          newer = TABLE("newer", .abi = IG_ARCH_ABI + 1, .head = head),
                          half = TABLE("half", .abi = IG_ARCH_ABI);

#if ARCH == 1
const ig_arch_desc *another_name(size_t i);
#    define ig_arch_entry another_name
__attribute__((visibility("default")))
#endif
const ig_arch_desc *
ig_arch_entry(size_t i) {
    static ig_arch_desc one;
    static char name[] = "arch-00";
    if (ARCH == ENDLESS) {
        one = sound;
        name[5] = (char)('0' + i / 10 % 10);
        name[6] = (char)('0' + i % 10);
        one.name = name;
        return &one;
    }
    if (i > (ARCH == HALF) || ARCH == EMPTY) return NULL;
    return ARCH == NEWER_ABI ? &newer : ARCH == HALF && i == 1 ? &half : &sound;
}
