/* describe.h - a plan in words: the JSON of report.h. */
#ifndef IG_PLAN_DESCRIBE_H
#define IG_PLAN_DESCRIBE_H

#include "base/text.h"
#include "plan/plan.h"

void ig_plan_describe(ig_text *t, const ig_planner *planner, const ig_plan *plan);

/* The three rungs of a segment: "attempts":[...] */
void ig_attempts_describe(ig_text *t, const ig_attempt attempts[IG_ATTEMPTS]);

#endif
