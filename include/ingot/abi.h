/*
 * abi.h - what bindings for other languages need beside the other headers.
 *
 * A binding repeats the layout of structs.  Comparing the sizes when it loads the library turns a
 * library of another version into an error instead of a crash.
 */
#ifndef INGOT_ABI_H
#define INGOT_ABI_H

#include "ingot/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name of struct i of the public headers, such as "ig_ctx_options"; NULL: there are no more.
 * Those of backend.h and arch.h, for plugins, are not among them.  Static. */
IG_API const char *ig_struct_name(size_t i);
/* The size of the struct with that name, in bytes; 0: there is none. */
IG_API size_t ig_struct_size(const char *name);

/* Whether the tensor is the result of an op that failed, which the next call that evaluates
 * reports.  For bindings that report it at once: ig_eval() of this tensor does. */
IG_API bool ig_tensor_is_poisoned(const ig_tensor *tensor);

#ifdef __cplusplus
}
#endif
#endif
