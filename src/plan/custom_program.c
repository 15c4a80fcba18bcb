/* A program of one step that calls the function of a custom op, on packed host memory. */
#include "plan/lower.h"

typedef struct custom_program {
    ig_backend_program base;
    const ig_allocator *allocator;
    ig_custom_guard *guard; /* NULL: no guard */
    ig_custom_op op;        /* a copy: the context's list may move */
    uint32_t n_in, n_out;
    ig_operand *operands; /* inputs, then outputs */
    ig_custom_operand *seen;
} custom_program;

static ig_status submit(ig_backend_program *program, ig_backend_buffer *const *buffers,
                        uint32_t n_buffers, const ig_slot *slots, uint32_t n_slots) {
    (void)n_buffers, (void)slots, (void)n_slots;
    custom_program *p = (custom_program *)program;
    for (uint32_t i = 0; i < p->n_in + p->n_out; i++) {
        const ig_operand *o = &p->operands[i];
        p->seen[i] = (ig_custom_operand){o->desc, (char *)buffers[o->buffer] + o->offset};
    }
    if (p->guard) *p->guard = (ig_custom_guard){.running = true};
    const ig_status status = p->op.run(p->op.user, p->seen, p->n_in, p->seen + p->n_in);
    if (!p->guard) return status;
    p->guard->running = false;
    if (status != IG_OK || !p->guard->called) return status;
    return IG_FAIL(IG_ERR_STATE, "%s: its run() called the context during a run", p->op.name);
}

static void destroy(ig_backend_program *program) {
    custom_program *p = (custom_program *)program;
    ig_free(p->allocator, p->seen);
    ig_free(p->allocator, p->operands);
    ig_free(p->allocator, p);
}

ig_status ig_custom_program_create(const ig_planner *planner, const ig_custom_op *op,
                                   const ig_step *step, ig_backend_program **out) {
    const ig_allocator *allocator = planner->allocator;
    custom_program *p = ig_alloc(allocator, 1, sizeof *p);
    if (!p) return IG_FAIL(IG_ERR_MEMORY, "%s: program", op->name);
    const uint32_t count = step->n_in + step->n_out;
    *p = (custom_program){.base = {submit, destroy},
                          .allocator = allocator,
                          .guard = planner->guard,
                          .op = *op,
                          .n_in = step->n_in,
                          .n_out = step->n_out};
    p->operands = ig_alloc(allocator, count, sizeof *p->operands);
    p->seen = ig_alloc(allocator, count, sizeof *p->seen);
    if (!p->operands || !p->seen) {
        destroy(&p->base);
        return IG_FAIL(IG_ERR_MEMORY, "%s: program", op->name);
    }
    for (uint32_t i = 0; i < count; i++) p->operands[i] = *ig_step_operand(step, i);
    *out = &p->base;
    return IG_OK;
}
