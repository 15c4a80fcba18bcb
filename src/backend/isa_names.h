/* sets.h - the instruction sets that the CPU backend can use here. */
#ifndef IG_BACKEND_SETS_H
#define IG_BACKEND_SETS_H

/* Number `i` of those that there are kernels for and that this machine has, the plainest first;
 * NULL: there are no more. */
const char *ig_instruction_set(int i);

#endif
