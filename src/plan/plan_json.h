/* plan_json.h - a plan as the JSON of report.h. */
#ifndef IG_PLAN_PLAN_JSON_H
#define IG_PLAN_PLAN_JSON_H

#include "base/text_out.h"
#include "plan/plan.h"

enum { IG_TITLE_BYTES = 64 };

/* The full name of a step, with its fused epilogue, as in "matmul+silu" or "matmul+add"; written to
 * `room`. */
const char *ig_step_title(const ig_planner *planner, const ig_step *step,
                          char room[IG_TITLE_BYTES]);

void ig_plan_describe(ig_text *t, const ig_planner *planner, const ig_plan *plan);

/* The three rungs of a segment: "attempts":[...] */
void ig_attempts_describe(ig_text *t, const ig_attempt attempts[IG_ATTEMPTS]);

#endif
