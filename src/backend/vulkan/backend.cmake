# The Vulkan backend: shaders are compiled to SPIR-V by glslc and built in.  The Vulkan library
# itself is opened at run time, so only its headers are needed here.
#
#   INGOT_VULKAN=AUTO   built where headers and glslc are installed (the default)
#                ON     an error without them
#                OFF    left out
set(INGOT_VULKAN AUTO CACHE STRING "the Vulkan backend: AUTO, ON or OFF")
find_path(VULKAN_HEADERS vulkan/vulkan.h)
find_program(GLSLC glslc)

set(vulkan_missing "")
if(INGOT_VULKAN STREQUAL "OFF")
  set(vulkan_missing "INGOT_VULKAN is OFF")
elseif(NOT VULKAN_HEADERS)
  set(vulkan_missing "vulkan/vulkan.h was not found (Debian: libvulkan-dev)")
elseif(NOT GLSLC)
  set(vulkan_missing "glslc was not found (Debian: glslc)")
endif()

if(vulkan_missing)
  if(INGOT_VULKAN STREQUAL "ON")
    message(FATAL_ERROR "Vulkan backend: ${vulkan_missing}")
  endif()
  message(STATUS "Vulkan backend: left out: ${vulkan_missing}")
  list(FILTER sources EXCLUDE REGEX "src/backend/vulkan/.*/")
else()
  message(STATUS "Vulkan backend: built with ${GLSLC}")
  list(FILTER sources EXCLUDE REGEX "src/backend/vulkan/absent\\.c$")
  set(vulkan_shaders_dir ${PROJECT_SOURCE_DIR}/src/backend/vulkan/shaders)
  set(vulkan_code ${generated}/backend/vulkan/shaders)
  file(MAKE_DIRECTORY ${vulkan_code}/addressed ${vulkan_code}/bound)
  file(GLOB vulkan_shaders CONFIGURE_DEPENDS ${vulkan_shaders_dir}/*.comp)
  rows_of(rows X\(NAME\) ${vulkan_shaders})
  write_rows(backend/vulkan/vk_shaders.h VK_SHADERS X ${rows})
  file(GLOB vulkan_kernels CONFIGURE_DEPENDS src/backend/vulkan/kernels/*.c)
  rows_of(rows X\(NAME\) ${vulkan_kernels})
  write_rows(backend/vulkan/vk_families.h VK_FAMILIES X ${rows})
  # Each shader in two forms: with memory by address, and by bindings, which any device has.  What is
  # bound reaches memory through functions that become short when a driver knows their constants:
  # glslc would only copy them to wherever they are called.
  foreach(shader IN LISTS vulkan_shaders)
    get_filename_component(name ${shader} NAME_WE)
    set(optimize -O)
    # Functions of chain are called by name when programs are made; elementwise computes the same by
    # itself, bit-exact if a driver is given the same words; and glslc fails on matrices that
    # are added up.
    if(name MATCHES "^(chain|elementwise|matmul_coopmat)$")
      set(optimize -O0)
    endif()
    set(addressed_flags ${optimize} --target-env=vulkan1.2)
    set(bound_flags -O0 --target-env=vulkan1.1 -DBOUND)
    foreach(form addressed bound)
      set(code ${vulkan_code}/${form}/${name})
      add_custom_command(OUTPUT ${code}.spv.h
        COMMAND ${GLSLC} ${${form}_flags} -I${PROJECT_SOURCE_DIR}/include -mfmt=c -MD -MF ${code}.d -o ${code}.spv.h ${shader}
        DEPENDS ${shader} DEPFILE ${code}.d
        COMMENT "Compiling shader ${name}, ${form}" VERBATIM)
      list(APPEND vulkan_headers ${code}.spv.h)
      string(APPEND vulkan_words "static const uint32_t ${form}_${name}[] =\n"
        "#include \"backend/vulkan/shaders/${form}/${name}.spv.h\"\n    ;\n")
    endforeach()
  endforeach()
  file(CONFIGURE OUTPUT ${vulkan_code}/words.h CONTENT "${vulkan_words}" @ONLY)
  list(APPEND sources ${vulkan_headers})
  set_source_files_properties(${PROJECT_SOURCE_DIR}/src/backend/vulkan/host/api.c PROPERTIES
    COMPILE_DEFINITIONS INGOT_DEBUG=$<CONFIG:Debug>)
endif()
add_custom_target(shaders DEPENDS ${vulkan_headers}) # what is generated, for those who only read
