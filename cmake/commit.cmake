# INGOT_COMMIT: which commit this is, for `ingot --version`; empty outside of a git checkout.
# Git appends to logs/HEAD whenever HEAD moves, and that configures anew.
set(INGOT_COMMIT "")
find_program(GIT_PROGRAM git)
if(GIT_PROGRAM AND EXISTS ${PROJECT_SOURCE_DIR}/.git)
  execute_process(COMMAND ${GIT_PROGRAM} -C ${PROJECT_SOURCE_DIR} rev-parse --short=12 HEAD
    OUTPUT_VARIABLE INGOT_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
    RESULT_VARIABLE failed)
  if(failed)
    set(INGOT_COMMIT "")
  endif()
  if(EXISTS ${PROJECT_SOURCE_DIR}/.git/logs/HEAD)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
      ${PROJECT_SOURCE_DIR}/.git/logs/HEAD)
  endif()
endif()
