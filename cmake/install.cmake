# What `cmake --install` lays down.  Nothing in it names the prefix, so the tree may be moved.
include(CMakePackageConfigHelpers)

install(TARGETS ingot EXPORT ingotTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS ingot_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/ingot DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The model that comes with the program: in the build tree too it lies where the program looks.
configure_file(models/stories.oam bin/${data_from_bin}/ingot/stories.oam COPYONLY)
install(FILES models/stories.oam DESTINATION ${CMAKE_INSTALL_DATADIR}/ingot)

# find_package(ingot 0.1) gives Ingot::ingot.
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ingot)
install(EXPORT ingotTargets NAMESPACE Ingot:: DESTINATION ${package_dir})
configure_package_config_file(cmake/ingotConfig.cmake.in cmake/ingotConfig.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(cmake/ingotConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cmake/ingotConfig.cmake
  ${PROJECT_BINARY_DIR}/cmake/ingotConfigVersion.cmake DESTINATION ${package_dir})

# pkg-config --cflags --libs ingot
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH pc_to_prefix /prefix/${pc_dir} /prefix)
configure_file(cmake/ingot.pc.in cmake/ingot.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/cmake/ingot.pc DESTINATION ${pc_dir})

# The program writes its own manual page and completions, so a cross build has none.
if(NOT CMAKE_CROSSCOMPILING AND NOT INGOT_SANITIZE)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/completions ${PROJECT_BINARY_DIR}/man)
  set(man_page ${PROJECT_BINARY_DIR}/man/ingot.1)
  add_custom_command(OUTPUT ${man_page} COMMAND ingot_program help --man > ${man_page} VERBATIM)
  add_custom_target(man_page ALL DEPENDS ${man_page})
  install(FILES ${man_page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  function(add_completion shell file destination)
    set(path ${PROJECT_BINARY_DIR}/completions/${file})
    add_custom_command(OUTPUT ${path} COMMAND ingot_program completion ${shell} > ${path} VERBATIM)
    add_custom_target(completion_${shell} ALL DEPENDS ${path})
    install(FILES ${path} DESTINATION ${CMAKE_INSTALL_DATADIR}/${destination})
  endfunction()
  add_completion(bash ingot bash-completion/completions)
  add_completion(zsh _ingot zsh/site-functions)
  add_completion(fish ingot.fish fish/vendor_completions.d)
endif()
