/*
 * Any bytes as the reply of a server under load.
 *
 * What must hold: nothing crashes; what is refused is refused with words; the same bytes in pieces
 * of another size are the same reply with the same events.  The first byte is the size.
 */
#include <string.h>

#include "base/alloc.h"
#include "cli/bench/http_reply.h"
#include "fuzz.h"

typedef struct outcome {
    ig_http_reply reply;
    ig_status status;
    size_t n_used, n_events, digest;
} outcome;

static void on_event(void *user, const char *data, size_t bytes) {
    outcome *o = user;
    REQUIRE(bytes > 0 && strlen(data) <= bytes && data[bytes] == 0);
    o->n_events++;
    for (size_t i = 0; i < bytes; i++) o->digest = o->digest * 31 + (unsigned char)data[i];
}

static void feed(outcome *o, const char *bytes, size_t n_bytes, size_t step) {
    *o = (outcome){.reply = {.allocator = &ig_heap, .on_event = on_event, .user = o}};
    ig_http_reply_reset(&o->reply);
    while (o->n_used < n_bytes && o->status == IG_OK && o->reply.phase != IG_HTTP_COMPLETE) {
        const size_t left = n_bytes - o->n_used;
        size_t used = 0;
        o->status =
            ig_http_reply_feed(&o->reply, bytes + o->n_used, left < step ? left : step, &used);
        REQUIRE(o->status != IG_OK || used > 0);
        o->n_used += used;
    }
    if (o->status == IG_OK) o->status = ig_http_reply_close(&o->reply);
    REQUIRE(o->status == IG_OK || o->status == IG_ERR_FORMAT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    outcome whole, pieces;
    feed(&whole, (const char *)data + 1, size - 1, size);
    feed(&pieces, (const char *)data + 1, size - 1, 1 + data[0] % 16);
    REQUIRE(whole.status == pieces.status);
    if (whole.status == IG_OK) {
        REQUIRE(whole.n_used == pieces.n_used && whole.reply.code == pieces.reply.code);
        REQUIRE(whole.n_events == pieces.n_events && whole.digest == pieces.digest);
        REQUIRE(whole.reply.keep_alive == pieces.reply.keep_alive);
        REQUIRE(whole.reply.body.used == pieces.reply.body.used);
        REQUIRE(whole.reply.body.used == 0 ||
                memcmp(whole.reply.body.at, pieces.reply.body.at, whole.reply.body.used) == 0);
    }
    ig_http_reply_deinit(&whole.reply);
    ig_http_reply_deinit(&pieces.reply);
    return 0;
}
