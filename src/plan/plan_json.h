/* describe.h - a plan in words: the JSON of report.h. */
#ifndef IG_PLAN_DESCRIBE_H
#define IG_PLAN_DESCRIBE_H

#include "base/text_out.h"
#include "plan/plan.h"

enum { IG_TITLE_BYTES = 64 };

/* What a step is called where all that it does is told: its name, and what was put behind it, as in
 * "matmul+silu" or "matmul+add", which is written to `room`. */
const char *ig_step_title(const ig_planner *planner, const ig_step *step,
                          char room[IG_TITLE_BYTES]);

void ig_plan_describe(ig_text *t, const ig_planner *planner, const ig_plan *plan);

/* The three rungs of a segment: "attempts":[...] */
void ig_attempts_describe(ig_text *t, const ig_attempt attempts[IG_ATTEMPTS]);

#endif
