# What `cmake --install` lays down besides the wheel's own component: headers, libraries, faltungConfig.cmake, faltung.pc. All paths in
# it are relative, so an installed tree may be moved.
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/faltung)

set(libraries faltung)
if(TARGET faltung_cuda)
  list(APPEND libraries faltung_cuda)
endif()
install(TARGETS ${libraries} EXPORT faltungTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development)
install(DIRECTORY include/faltung DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development FILES_MATCHING PATTERN "*.h"
  PATTERN "*.hpp")
install(EXPORT faltungTargets NAMESPACE faltung:: DESTINATION ${package_folder} COMPONENT development)

configure_package_config_file(cmake/faltungConfig.cmake.in ${PROJECT_BINARY_DIR}/faltungConfig.cmake
  INSTALL_DESTINATION ${package_folder})
# Before 1.0 a minor version may change the ABI.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/faltungConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/faltungConfig.cmake ${PROJECT_BINARY_DIR}/faltungConfigVersion.cmake
  DESTINATION ${package_folder} COMPONENT development)

file(RELATIVE_PATH faltung_pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/faltung.pc.in ${PROJECT_BINARY_DIR}/faltung.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/faltung.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
