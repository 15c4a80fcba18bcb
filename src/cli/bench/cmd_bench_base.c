/* Numbers, machine and context: shared by all subjects of `ingot bench`. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/app/output.h"
#include "cli/bench/cmd_bench.h"

const char *const bench_modes[] = {"dynamic", "compiled", "auto", NULL};

/* ---- Numbers ---- */

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

bench_spread bench_spread_of(double *values, size_t count) {
    qsort(values, count, sizeof *values, by_value);
    const double middle =
        count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
    return (bench_spread){values[0], middle, values[count - 1]};
}

json_t *bench_spread_json(bench_spread s) {
    return json_pack("{s:o, s:o, s:o}", "min", ig_json_real(s.min), "median",
                     ig_json_real(s.median), "max", ig_json_real(s.max));
}

bench_line bench_line_through(const double *x, const double *y, size_t count) {
    double mean_x = 0, mean_y = 0, xx = 0, xy = 0;
    for (size_t i = 0; i < count; i++) {
        mean_x += x[i] / (double)count;
        mean_y += y[i] / (double)count;
    }
    for (size_t i = 0; i < count; i++) {
        xx += (x[i] - mean_x) * (x[i] - mean_x);
        xy += (x[i] - mean_x) * (y[i] - mean_y);
    }
    const double slope = xx > 0 ? xy / xx : 0;
    return (bench_line){slope, mean_y - slope * mean_x};
}

json_t *bench_cost_json(double ns) { return ns > 0 ? ig_json_real(ns) : json_null(); }

const char *bench_cost_text(double ns, char out[BENCH_COST_BYTES]) {
    snprintf(out, BENCH_COST_BYTES, "-");
    if (ns > 0) snprintf(out, BENCH_COST_BYTES, "%.1f", ns);
    return out;
}

ig_status bench_numbers(const char *option, const char *text, int64_t low, int64_t high, int most,
                        int64_t *out, int *out_count) {
    const char *at = text;
    for (*out_count = 0; *out_count < most; at++) {
        char *end;
        errno = 0;
        const long long value = strtoll(at, &end, 10);
        if (end == at || errno != 0 || value < low || value > high || (*end && *end != ',')) break;
        out[(*out_count)++] = value;
        if (!*end) return IG_OK;
        at = end;
    }
    char what[64] = "a number";
    if (most > 1) snprintf(what, sizeof what, "up to %d comma-separated integers, each", most);
    return IG_FAIL(IG_ERR_ARGUMENT, "--%s '%s': must be %s from %lld to %lld", option, text, what,
                   (long long)low, (long long)high);
}

/* ---- Surroundings ---- */

ig_status bench_device_of(const ig_ctx *ctx, bench_device *out) {
    json_t *report;
    IG_TRY(ig_json_report(ctx, &report));
    const json_t *config = json_object_get(report, "config_resolved");
    const char *isa = json_string_value(json_object_get(config, "architecture"));
    *out = (bench_device){.threads = json_integer_value(json_object_get(config, "threads"))};
    snprintf(out->name, sizeof out->name, "%s", ig_ctx_device(ctx));
    snprintf(out->isa, sizeof out->isa, "%s", isa ? isa : "");
    json_decref(report);
    return IG_OK;
}

static void cpu_name(char *out, size_t out_bytes) {
    char line[256];
    snprintf(out, out_bytes, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file) return;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "model name", 10) != 0) continue;
        const char *colon = strchr(line, ':');
        if (!colon) continue;
        line[strcspn(line, "\n")] = 0;
        ig_text_safe(colon + 1 + strspn(colon + 1, " \t"), out, out_bytes);
        break;
    }
    fclose(file);
}

json_t *bench_machine_json(void) {
    char cpu[128];
    cpu_name(cpu, sizeof cpu);
    return json_pack("{s:s, s:I}", "cpu", cpu, "processors",
                     (json_int_t)sysconf(_SC_NPROCESSORS_ONLN));
}

void bench_print_machine(void) {
    char cpu[128];
    cpu_name(cpu, sizeof cpu);
    printf("%s, %ld processors\n", cpu, sysconf(_SC_NPROCESSORS_ONLN));
}

/* Bytes from a line of /proc/self/status. getrusage() would include what ran before exec(). */
static uint64_t status_bytes(const char *format) {
    char line[256];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/self/status", "re");
    if (!file) return 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, format, &kib) == 1) break;
    fclose(file);
    return kib * 1024;
}

uint64_t bench_rss(void) { return status_bytes("VmRSS: %llu kB"); }
uint64_t bench_peak_rss(void) { return status_bytes("VmHWM: %llu kB"); }

void bench_forget_peak_rss(void) {
    FILE *file = fopen("/proc/self/clear_refs", "we");
    if (!file) return;
    fputs("5", file); /* resets the peak RSS, see proc(5) */
    fclose(file);
}

static void *counted_alloc(void *user, size_t bytes, size_t alignment) {
    bench_counter *c = user;
    c->calls++;
    return c->inner.alloc(c->inner.user, bytes, alignment);
}

static void counted_free(void *user, void *p) {
    const bench_counter *c = user;
    c->inner.free(c->inner.user, p);
}

ig_allocator bench_counting(bench_counter *counter, ig_allocator inner) {
    counter->inner = inner;
    counter->calls = 0;
    return (ig_allocator){counted_alloc, counted_free, counter};
}

ig_status bench_context(ig_cli *cli, const char *device, int64_t threads, ig_ctx **out) {
    ig_ctx_options options = ig_cli_ctx_options(cli);
    options.device = device;
    options.threads = (int)threads;
    if (device &&
        strcmp(device, "null") == 0) { /* kernels compute nothing: only overhead is measured */
        options.unsafe_device = true;
        options.on_destroy = NULL; /* report the device that computes instead */
    }
    return ig_ctx_create(&options, out);
}

bool bench_has_roof(const bench_device *device) {
    return strncmp(device->name, "cpu:", 4) == 0 || strncmp(device->name, "ref:", 4) == 0;
}

ig_status bench_device_ask(ig_cli *cli, const char *device, int64_t threads, bench_device *out) {
    ig_ctx *ctx;
    IG_TRY(bench_context(cli, device, threads, &ctx));
    const ig_status status = bench_device_of(ctx, out);
    ig_ctx_destroy(ctx);
    return status;
}
