/*
 * The arena, checked by brute force.
 *
 * From a finished plan alone: every value that lies in the arena is followed level by level, and
 * at no level may two that are alive share a byte.  Nothing here knows how places were found.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ingot/ingot.h"
#include "sketch.h"

enum { GRAPHS = 300, MOST_LIVES = 1024, MOST_KEPT = 8 };

/* A range of the arena, and the levels in which a step may access it. */
typedef struct life {
    uint32_t memory; /* a base value, or a copy's; scratch: 1 << 31 with its step */
    uint32_t first, last;
    uint64_t begin, end;
} life;

typedef struct lives {
    life at[MOST_LIVES];
    uint32_t count;
} lives;

static void extend(lives *l, life seen) {
    for (uint32_t i = 0; i < l->count; i++) {
        life *a = &l->at[i];
        if (a->memory != seen.memory) continue;
        if (seen.first < a->first) a->first = seen.first;
        if (seen.last > a->last) a->last = seen.last;
        if (seen.begin < a->begin) a->begin = seen.begin;
        if (seen.end > a->end) a->end = seen.end;
        return;
    }
    assert_true(l->count < MOST_LIVES);
    l->at[l->count++] = seen;
}

static void look_at(lives *l, const ig_graph *g, const ig_step *step, const ig_operand *o) {
    if (o->buffer != IG_ARENA || ig_shape_count(o->desc.shape) == 0) return;
    int64_t last = 0;
    for (int d = 0; d < o->desc.shape.rank; d++) last += (o->desc.shape.dim[d] - 1) * o->stride[d];
    const uint32_t base = o->value < g->n_values ? ig_value_at(g, o->value)->base : o->value;
    extend(l, (life){base, step->level, step->level, o->offset,
                     o->offset + (uint64_t)(last + 1) * sizeof(float)});
}

/* `early`: levels that scratch is there before its step. */
static void collect(lives *l, const ig_graph *g, const ig_plan *plan, uint32_t early) {
    l->count = 0;
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const ig_step *step = &plan->steps[i];
        for (uint32_t j = 0; j < step->n_in + step->n_out; j++)
            look_at(l, g, step, ig_step_operand(step, j));
        if (step->scratch_bytes)
            extend(l, (life){UINT32_C(1) << 31 | i, step->level < early ? 0 : step->level - early,
                             step->level, step->scratch_offset,
                             step->scratch_offset + step->scratch_bytes});
    }
}

/* Level by level, pair by pair.  Returns the most bytes alive at once. */
static uint64_t most_alive(const lives *l, const ig_plan *plan) {
    uint64_t most = 0;
    for (uint32_t level = 0; level < plan->n_levels; level++) {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < l->count; i++) {
            const life *a = &l->at[i];
            if (a->first > level || a->last < level) continue;
            sum += a->end - a->begin;
            assert_true(a->end <= plan->arena_bytes);
            for (uint32_t j = 0; j < i; j++) {
                const life *b = &l->at[j];
                if (b->first > level || b->last < level) continue;
                assert_true(a->end <= b->begin || b->end <= a->begin);
            }
        }
        if (sum > most) most = sum;
    }
    return most;
}

/* Some values that are in no buffer of the caller's. */
static uint32_t choose_kept(const ig_graph *g, const ig_value *bound, uint32_t n_bound,
                            ig_value *kept) {
    uint32_t count = 0;
    for (ig_value v = 1; v < g->n_values && count < MOST_KEPT; v += 3) {
        const ig_value base = ig_value_at(g, v)->base;
        bool is_bound = ig_value_at(g, base)->node == IG_NO_NODE;
        for (uint32_t i = 0; i < n_bound; i++) is_bound |= bound[i] == base;
        if (!is_bound) kept[count++] = v;
    }
    return count;
}

static void check_graph(ig_device *device, uint32_t number, uint32_t *out_shared,
                        uint32_t *out_kept) {
    const ig_planner planner = {.allocator = &ig_heap, .devices = {device}, .n_devices = 1};
    static lives l;
    sketch s;
    ig_value bound[MOST_VALUES], kept[MOST_KEPT];
    sketch_draw(&s, number);
    const uint32_t n_bound = sketch_choose_bound(&s, bound, 0);
    const uint32_t n_kept = choose_kept(&s.g, bound, n_bound, kept);
    ig_plan *plan = NULL;
    const ig_plan_args args = {.graph = &s.g,
                               .count = (uint32_t)s.g.n_nodes,
                               .bound = bound,
                               .n_bound = n_bound,
                               .kept = kept,
                               .n_kept = n_kept};
    assert_int_equal(ig_plan_create(&planner, args, &plan), IG_OK);
    collect(&l, &s.g, plan, device->info.flags & IG_EARLY_SCRATCH ? 1 : 0);
    for (uint32_t i = 0; i < n_kept; i++) /* they stay, and are where the plan says */
        for (uint32_t j = 0; j < l.count; j++) {
            const ig_value base = ig_value_at(&s.g, kept[i])->base;
            if (l.at[j].memory != base) continue;
            assert_true(l.at[j].begin >= plan->placements[base].offset);
            assert_int_equal(plan->placements[base].last, UINT32_MAX);
            l.at[j].last = UINT32_MAX;
            *out_kept += 1;
        }
    const uint64_t most = most_alive(&l, plan);
    assert_true(most <= plan->live_bytes && plan->live_bytes <= plan->arena_bytes);
    for (uint32_t i = 0; i < l.count; i++)
        for (uint32_t j = 0; j < i; j++)
            *out_shared += l.at[i].begin < l.at[j].end && l.at[j].begin < l.at[i].end;
    ig_plan_destroy(plan);
    ig_graph_deinit(&s.g);
}

static void check_graphs(const char *name) {
    ig_device *device;
    uint32_t shared = 0, kept = 0;
    assert_int_equal(ig_device_open(&sketch_host, &ig_heap, name, &device), IG_OK);
    for (uint32_t number = 0; number < GRAPHS; number++)
        check_graph(device, number, &shared, &kept);
    ig_device_close(device);
    assert_true(shared > GRAPHS && kept > GRAPHS); /* there was something to see */
}

static void what_lives_at_once_shares_no_byte_on_ref(void **state) {
    (void)state;
    check_graphs("ref");
}

static void what_lives_at_once_shares_no_byte_on_cpu(void **state) {
    (void)state;
    check_graphs("cpu");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_lives_at_once_shares_no_byte_on_ref),
        cmocka_unit_test(what_lives_at_once_shares_no_byte_on_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
