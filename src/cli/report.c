/*
 * The report of a run, for whoever runs many: one JSON object, the same fields for
 * every command, whether it went well or not.
 */
#include <jansson.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/output.h"

/* What kind of failure a status is, for those who sort by it. */
static const char *error_name(ig_status status) {
    static const char *const names[IG_STATUS_COUNT] = {
        [IG_ERR_DEVICE] = "BackendUnavailable",
        [IG_ERR_UNSUPPORTED] = "BackendUnavailable",
        [IG_ERR_FORMAT] = "WeightFormat",
        [IG_ERR_MEMORY] = "InsufficientMemory",
        [IG_ERR_IO] = "InputOutput",
        [IG_ERR_ARGUMENT] = "InvalidArgument",
        [IG_ERR_CANCELLED] = "Cancelled",
    };
    const char *name = (unsigned)status < IG_STATUS_COUNT ? names[status] : NULL;
    return name ? name : "RunFailed";
}

static json_t *error_of(const ig_cli *cli, ig_status status, int code) {
    char words[IG_ERROR_BYTES];
    if (status == IG_OK) return json_null();
    return json_pack("{s:s, s:o, s:i}", "name", error_name(status), "message",
                     ig_json_text(ig_cli_error(cli, words)), "exit_code", code);
}

/* Steps by the device that runs them, of all that the timeline lists. */
static json_t *placement_of(const json_t *timeline) {
    json_t *devices = json_object();
    size_t i;
    const json_t *entry;
    json_array_foreach(timeline, i, entry) {
        const char *device = json_string_value(json_object_get(entry, "device"));
        const json_int_t before = device ? json_integer_value(json_object_get(devices, device)) : 0;
        if (device) json_object_set_new(devices, device, json_integer(before + 1));
    }
    return devices;
}

static void print(FILE *to, const void *what) {
    json_dumpf(what, to, JSON_INDENT(2));
    fputc('\n', to);
}

static json_t *report_of(const ig_cli *cli, ig_status status, int code) {
    struct timespec now;
    char id[48];
    clock_gettime(CLOCK_REALTIME, &now);
    const double ms = (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
    snprintf(id, sizeof id, "%llx-%x", (unsigned long long)(ms * 1e3), (unsigned)getpid());
    json_t *r = cli->last_report ? json_deep_copy(cli->last_report) : json_object();
    static const char *const nulls[] = {"model",           "backend",        "job_id",
                                        "trace_id",        "worker_id",      "latent_stats",
                                        "batch_size",      "batch_group_id", "execution_mode",
                                        "config_resolved", "memory",         "cache_hits"};
    for (size_t i = 0; i < sizeof nulls / sizeof nulls[0]; i++)
        if (!json_object_get(r, nulls[i])) json_object_set_new(r, nulls[i], json_null());
    if (!json_object_get(r, "backend_timeline"))
        json_object_set_new(r, "backend_timeline", json_array());
    json_object_set_new(r, "schema_version", json_string("1.0.0"));
    json_object_set_new(r, "run_id", json_string(id));
    json_object_set_new(r, "task", json_string(cli->command ? cli->command->name : ""));
    json_object_set_new(r, "enqueued_at_ms", json_real(cli->began_ms));
    json_object_set_new(r, "queue_wait_ms", json_real(0));
    json_object_set_new(r, "timings", json_pack("{s:f}", "total_ms", ms - cli->began_ms));
    json_object_set_new(r, "artifacts", json_array());
    json_object_set_new(r, "stream_events", json_array());
    json_object_set_new(r, "device_placement",
                        placement_of(json_object_get(r, "backend_timeline")));
    json_object_set_new(r, "error", error_of(cli, status, code));
    return r;
}

int ig_cli_report(ig_cli *cli, ig_status status, int code) {
    if (!cli->report) return code;
    json_t *r = report_of(cli, status, code);
    const ig_status written = r ? ig_file_replace(&cli->allocator, cli->report, print, r)
                                : IG_FAIL(IG_ERR_MEMORY, "report");
    json_decref(r);
    json_decref(cli->last_report);
    cli->last_report = NULL;
    if (written == IG_OK) return code;
    const int failed = ig_cli_fail(cli, written);
    return code ? code : failed;
}
