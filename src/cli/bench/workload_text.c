/*
 * The training text of workloads: a passage with many repetitions, so that a few hundred steps are
 * enough. Only lowercase letters and spaces, for models with no other symbols.
 */
#include "cli/bench/workload.h"

const char ig_workload_text[] = "the cloud sends a rain the rain falls on a hill "
                                "the hill feeds a river the river drives a mill "
                                "the mill turns a stone the stone grinds a grain "
                                "the grain fills a sack the sack goes to a baker "
                                "the baker bakes a loaf the loaf warms a child "
                                "the child sings a song the song wakes a cloud "
                                "the cloud sends a rain the rain falls on a hill "
                                "the hill feeds a river the river drives a mill "
                                "the mill turns a stone the stone grinds a grain "
                                "the grain fills a sack the sack goes to a baker "
                                "the baker bakes a loaf the loaf warms a child "
                                "the child sings a song the song wakes a cloud "
                                "then one long summer no cloud was in the sky "
                                "so hill and river both ran dry and all was still "
                                "no wheel would turn no flour lay under the stone "
                                "and every sack hung empty beside the cold oven "
                                "until one day a child began to sing once more "
                                "far off it thundered and soon it began to rain "
                                "the cloud sends a rain the rain falls on a hill "
                                "the hill feeds a river the river drives a mill "
                                "the mill turns a stone the stone grinds a grain "
                                "the grain fills a sack the sack goes to a baker "
                                "the baker bakes a loaf the loaf warms a child "
                                "the child sings a song the song wakes a cloud "
                                "the cloud sends a rain the rain falls on a hill "
                                "the hill feeds a river the river drives a mill "
                                "the mill turns a stone the stone grinds a grain "
                                "the grain fills a sack the sack goes to a baker "
                                "the baker bakes a loaf the loaf warms a child "
                                "the child sings a song the song wakes a cloud ";

const size_t ig_workload_text_bytes = sizeof ig_workload_text - 1;
