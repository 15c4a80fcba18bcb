/* dispatch_batch.h - dispatch batches, for reports. */
#ifndef IG_RUNTIME_RECORD_DISPATCH_BATCH_H
#define IG_RUNTIME_RECORD_DISPATCH_BATCH_H

#include "ingot/batch.h"
#include "plan/plan.h"

/* The next older live batch; NULL: none. */
ig_batch *ig_batch_before(const ig_batch *batch);
const ig_plan *ig_batch_plan(const ig_batch *batch); /* NULL: not planned yet */

#endif
