# Runs HARNESS for RUNS cases on a fresh CORPUS from SEEDS; fails unless every one of them ran.
# The same seed each time: a failure comes back until it is fixed.  tools/test --long takes others
# (INGOT_FUZZ_SEED) and runs more cases (INGOT_FUZZ_TIMES).
set(seed 1)
if(DEFINED ENV{INGOT_FUZZ_SEED})
  set(seed $ENV{INGOT_FUZZ_SEED})
endif()
if(DEFINED ENV{INGOT_FUZZ_TIMES})
  math(EXPR RUNS "${RUNS} * $ENV{INGOT_FUZZ_TIMES}")
endif()
file(REMOVE_RECURSE ${CORPUS})
file(MAKE_DIRECTORY ${CORPUS})
execute_process(COMMAND ${SEEDS} ${CORPUS} COMMAND_ERROR_IS_FATAL ANY)
# Memory that was freed is kept aside to find late uses; less of it, or it would be all of the limit.
execute_process(
  COMMAND ${CMAKE_COMMAND} -E env ASAN_OPTIONS=quarantine_size_mb=16 ${HARNESS} -runs=${RUNS} -seed=${seed} -max_len=65536 -rss_limit_mb=256 -timeout=5
          -artifact_prefix=${CORPUS}. ${CORPUS}
  RESULT_VARIABLE result
  ERROR_VARIABLE words)
string(LENGTH "${words}" length)
if(length GREATER 6000)
  math(EXPR from "${length} - 6000")
  string(SUBSTRING "${words}" ${from} -1 words)
endif()
message("${words}")
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${HARNESS} ended with ${result}")
endif()
if(NOT words MATCHES "Done ${RUNS} runs")
  message(FATAL_ERROR "${HARNESS} did not run ${RUNS} cases")
endif()
