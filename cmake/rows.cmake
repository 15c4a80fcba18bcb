# write_rows(FILE MACRO PARAMETERS ROW...): a header with one X-macro, in the folder of what is
# generated.  The rows come from globs, so that a new file is a new row:
#
#   #define MACRO(PARAMETERS) ROW ROW ...
set(generated ${PROJECT_BINARY_DIR}/generated)
function(write_rows file macro parameters)
  list(JOIN ARGN " \\\n    " rows)
  file(CONFIGURE OUTPUT ${generated}/${file} @ONLY CONTENT
    "/* Made by CMake of the files that there are. */\n#define ${macro}(${parameters}) \\\n    ${rows}\n")
endfunction()

# rows_of(OUT ROW FILE...): ROW for each of the files, with their names in the place of NAME.
function(rows_of out row)
  set(rows "")
  foreach(file IN LISTS ARGN)
    get_filename_component(name ${file} NAME_WE)
    string(REPLACE NAME ${name} one "${row}")
    list(APPEND rows "${one}")
  endforeach()
  set(${out} "${rows}" PARENT_SCOPE)
endfunction()
