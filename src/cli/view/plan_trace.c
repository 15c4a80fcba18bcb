/*
 * A profile in the trace event format of chrome://tracing and ui.perfetto.dev: one complete event
 * ("X") per kernel call, times in microseconds from the first one on, and one lane per thread.
 */
#include "cli/view/plan_view.h"

static json_int_t number(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

static void put_string(FILE *to, const char *text) {
    json_t *string = json_string(text);
    if (!string || json_dumpf(string, to, JSON_ENCODE_ANY) != 0) fputs("\"\"", to);
    json_decref(string);
}

static void put_names(FILE *to, json_int_t threads, const char *title) {
    fputs("{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"tid\":0,\"args\":{\"name\":", to);
    put_string(to, title);
    fputs("}}", to);
    for (json_int_t i = 0; i < threads; i++)
        fprintf(to,
                ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":%lld,"
                "\"args\":{\"name\":\"thread %lld\"}}",
                (long long)i, (long long)i);
}

static void put_event(FILE *to, const plan_view *v, const json_t *event, json_int_t began) {
    const json_int_t index = number(event, "step"), begin = number(event, "begin_ns");
    if (index < 0 || index >= (json_int_t)v->n_steps) return;
    const plan_step *step = &v->steps[index];
    fputs(",\n{\"name\":", to);
    put_string(to, step->op);
    fprintf(to, ",\"cat\":\"level %u\",\"ph\":\"X\",\"pid\":1,\"tid\":%lld", step->level,
            (long long)number(event, "thread"));
    fprintf(to, ",\"ts\":%.3f,\"dur\":%.3f", (double)(begin - began) / 1e3,
            (double)(number(event, "end_ns") - begin) / 1e3);
    fprintf(to, ",\"args\":{\"step\":%lld,\"level\":%u,\"chain\":%u,\"run\":%lld,\"result\":",
            (long long)index, step->level, step->chain, (long long)number(event, "run"));
    put_string(to, step->result);
    fputs("}}", to);
}

void plan_trace_print(FILE *to, const plan_view *v, const json_t *profile, const char *title) {
    const json_t *events = json_object_get(profile, "events"), *event;
    json_int_t threads = 1, began = 0;
    size_t i;
    json_array_foreach(events, i, event) {
        if (number(event, "thread") >= threads) threads = number(event, "thread") + 1;
        if (i == 0 || number(event, "begin_ns") < began) began = number(event, "begin_ns");
    }
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", to);
    put_names(to, threads, title);
    json_array_foreach(events, i, event) put_event(to, v, event, began);
    fputs("\n]}\n", to);
}
