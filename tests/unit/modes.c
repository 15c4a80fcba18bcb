#include "unit/modes.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- trails ---- */

void trail_name(trail *t, const char *format, ...) {
    va_list args;
    t->marks = realloc(t->marks, (t->n_marks + 1) * sizeof *t->marks);
    assert_non_null(t->marks);
    trail_mark *mark = &t->marks[t->n_marks++];
    mark->first = t->count;
    va_start(args, format);
    vsnprintf(mark->name, sizeof mark->name, format, args);
    va_end(args);
}

/* The mark that number i stands under. */
static trail_mark mark_of(const trail *t, size_t i) {
    trail_mark mark = {.name = "number"};
    for (size_t k = 0; k < t->n_marks && t->marks[k].first <= i; k++) mark = t->marks[k];
    return mark;
}

void trail_put(trail *t, double number) {
    if (t->count == t->room) {
        t->room = t->room ? t->room * 2 : 256;
        t->numbers = realloc(t->numbers, t->room * sizeof *t->numbers);
        assert_non_null(t->numbers);
    }
    t->numbers[t->count++] = number;
}

void trail_put_item(trail *t, ig_tensor *scalar) { trail_put(t, item(scalar)); }

void trail_put_tensor(trail *t, ig_tensor *f32) {
    const size_t count = (size_t)ig_shape_count(ig_tensor_desc(f32).shape);
    float *all = calloc(count + 1, sizeof *all);
    assert_non_null(all);
    must(ig_tensor_read(f32, all, count * sizeof *all));
    for (size_t i = 0; i < count; i++) trail_put(t, (double)all[i]);
    free(all);
}

void trail_free(trail *t) {
    free(t->numbers);
    free(t->marks);
    *t = (trail){0};
}

/* Bits, not values: -0 is not 0, and a NaN is itself. */
void trail_must_equal(const trail *got, const trail *want, const char *what) {
    size_t different = 0, first = 0;
    for (size_t i = 0; i < got->count && i < want->count; i++)
        if (memcmp(&got->numbers[i], &want->numbers[i], sizeof(double)) != 0 && different++ == 0)
            first = i;
    const trail_mark mark = mark_of(want, first);
    if (different > 0)
        fail_msg("%s: %s[%zu] is %.9g, not %.9g, and so are %zu more of %zu numbers", what,
                 mark.name, first - mark.first, got->numbers[first], want->numbers[first],
                 different - 1, want->count);
    if (got->count != want->count)
        fail_msg("%s: %zu numbers, not %zu", what, got->count, want->count);
}

/* ---- running ---- */

ig_counters play(setting s, program *p, trail *t) {
    ig_ctx *ctx = NULL;
    const ig_ctx_options options = {.device = s.device, .threads = s.threads, .seed = 11};
    must(ig_ctx_create(&options, &ctx));
    must(ig_mode_set(ctx, s.mode));
    p(ctx, t);
    must(ig_ctx_step_end(ctx));
    const ig_counters counters = ig_report_counters(ctx);
    ig_ctx_destroy(ctx);
    return counters;
}

void must_be_the_same_in_all_modes(program *p) {
    static const char *const modes[] = {"dynamic", "compiled", "auto"};
    static const char *const devices[] = {NULL, "ref"};
    for (size_t d = 0; d < 2; d++) {
        trail want = {0};
        play((setting){IG_MODE_DYNAMIC, devices[d], 1}, p, &want);
        for (int i = 0; i < 6; i++) {
            const setting s = {(ig_mode)(i / 2), devices[d], 1 + i % 2};
            char what[64];
            snprintf(what, sizeof what, "%s, %d threads%s", modes[s.mode], s.threads,
                     devices[d] ? ", ref" : "");
            trail got = {0};
            play(s, p, &got);
            trail_must_equal(&got, &want, what);
            trail_free(&got);
        }
        trail_free(&want);
    }
}

/* ---- the report ---- */

recordings recordings_of(const ig_ctx *ctx) {
    recordings r = {0};
    const size_t bytes = ig_report_json(ctx, NULL, 0) + 1;
    char *json = calloc(bytes, 1), refused[8] = "";
    assert_non_null(json);
    assert_true(ig_report_json(ctx, json, bytes) < bytes);
    const char *at = strstr(json, "\"recordings\":");
    assert_non_null(at);
    assert_int_equal(
        sscanf(at, "\"recordings\":{\"count\":%d,\"refused\":%7[a-z],\"reason\":\"%511[^\"]",
               &r.count, refused, r.reason) >= 2,
        1);
    r.refused = strcmp(refused, "true") == 0;
    free(json);
    return r;
}

/* ---- tensors ---- */

ig_tensor *ramp(ig_ctx *ctx, ig_shape shape, double first, double step) {
    const size_t count = (size_t)ig_shape_count(shape);
    float *all = calloc(count + 1, sizeof *all);
    assert_non_null(all);
    for (size_t i = 0; i < count; i++) all[i] = (float)(first + step * (double)i);
    ig_tensor *t = floats(ctx, shape, all);
    free(all);
    return t;
}

ig_tensor *parameter(ig_ctx *ctx, ig_shape shape, const char *name) {
    ig_tensor *t = NULL;
    must(ig_tensor_create(ctx, (ig_desc){IG_F32, shape}, &t));
    must(ig_tensor_fill_normal(t, 0, 0.3));
    must(ig_tensor_set_name(t, name));
    must(ig_tensor_require_grad(t));
    return t;
}
