/*
 * Every architecture against llama.cpp: the small models in F32 give the logits that it gave for
 * them (make_archs.py).  Errors are norm-wise, |got - want| / |want|.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "golden.h"
#include "ingot/session.h"
#include "model/synthetic/synthetic_models.h"

enum { LENGTH = 70, MOST_LOGITS = 512 };

static const double float_error = 1e-5; /* sums of F32 in another order */
static const double gelu_error = 1e-3;  /* llama.cpp looks it up in a table of halves */

#define OK(call)                                                         \
    do {                                                                 \
        if ((call) != IG_OK) fail_msg("%s: %s", #call, ig_error_text()); \
    } while (0)

static bool has_gelu(const char *name) {
    static const char *const with[] = {"gemma", "gpt2", "gptneox", "phi2", "falcon", "starcoder2"};
    for (size_t i = 0; i < sizeof with / sizeof *with; i++)
        if (strncmp(name, with[i], strlen(with[i])) == 0) return true;
    return false;
}

/* Returns how many logits there are. */
static int64_t logits_of(const char *name, float *out) {
    char path[128];
    ig_ctx *ctx;
    ig_adapter *adapter;
    ig_session *session;
    int32_t tokens[LENGTH];
    const ig_session_options exact = {.cache_k = "f32", .cache_v = "f32"};
    snprintf(path, sizeof path, "/tmp/ingot-archs-%d.gguf", (int)getpid());
    OK(model_save(name, IG_F32, path));
    OK(ig_ctx_create(&(ig_ctx_options){.device = "cpu"}, &ctx));
    OK(ig_adapter_load(ctx, path, &adapter));
    const int64_t n = ig_adapter_vocabulary(adapter);
    assert_true(n <= MOST_LOGITS);
    for (int i = 0; i < LENGTH; i++) tokens[i] = (int32_t)((i * 37 + i * i) % n);
    OK(ig_session_create(adapter, &exact, &session));
    OK(ig_session_feed(session, 0, tokens, LENGTH, out));
    ig_session_destroy(session);
    ig_adapter_destroy(adapter);
    ig_ctx_destroy(ctx);
    unlink(path);
    return n;
}

static void check(const golden *recorded, const char *name) {
    float got[MOST_LOGITS];
    const golden_record *want = golden_find(recorded, name);
    if (!want) fail_msg("%s is not recorded", name);
    assert_int_equal(logits_of(name, got), want->count);
    double apart = 0, all = 0;
    for (int64_t i = 0; i < want->count; i++) {
        const double x = (double)((const float *)want->elements)[i];
        apart += ((double)got[i] - x) * ((double)got[i] - x);
        all += x * x;
    }
    const double error = sqrt(apart / all);
    print_message("%-12s %.2e\n", name, error);
    if (!(error <= (has_gelu(name) ? gelu_error : float_error))) fail_msg("%s: %g", name, error);
}

static void every_architecture_has_the_logits_of_llama_cpp(void **state) {
    (void)state;
    static golden recorded;
    int checked = 0;
    assert_true(golden_read(TEST_DATA_DIR "/data/archs.bin", &recorded));
    for (size_t i = 0; model_name(i); i++) {
        if (strcmp(model_name(i), "bert") == 0) continue; /* it makes no text */
        check(&recorded, model_name(i));
        checked++;
    }
    for (size_t i = 0; model_relative(i); i++, checked++) check(&recorded, model_relative(i));
    assert_int_equal(checked, recorded.count);
    golden_free(&recorded);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_architecture_has_the_logits_of_llama_cpp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
