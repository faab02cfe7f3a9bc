# cmake -DBUILD=... -DWORK=... -DSOURCE=... -DVERSION=... -DC_COMPILER=... -DCXX_COMPILER=... -DPKG_CONFIG=... -DFLAGS=... -P run.cmake
# Installs the build into a folder, moves it, and builds and runs programs against it: C++ and C through find_package, C
# through pkg-config; a wrong version must be refused.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nexited with ${code}:\n${output}")
  endif()
  message(STATUS "${output}")
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/installed)  # nothing in the tree may know where it was laid down
set(prefix ${WORK}/installed)
file(GLOB_RECURSE pc ${prefix}/faltung.pc)
get_filename_component(pkgconfig_folder ${pc} DIRECTORY)
get_filename_component(library_folder ${pkgconfig_folder} DIRECTORY)

foreach(header faltung.h long_conv.hpp tensor.hpp error.hpp)
  if(NOT EXISTS ${prefix}/include/faltung/${header})
    message(FATAL_ERROR "expected an installed header include/faltung/${header}, found none")
  endif()
endforeach()

foreach(language cxx c)
  run(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/${language} -G Ninja -DCONSUMER=${language} -DCMAKE_PREFIX_PATH=${prefix}
    -DCMAKE_C_COMPILER=${C_COMPILER} -DCMAKE_CXX_COMPILER=${CXX_COMPILER} -DCMAKE_C_FLAGS=${FLAGS} -DCMAKE_CXX_FLAGS=${FLAGS})
  run(${CMAKE_COMMAND} --build ${WORK}/${language})
  run(${WORK}/${language}/consumer)
endforeach()

set(ENV{PKG_CONFIG_PATH} ${pkgconfig_folder})
run(${PKG_CONFIG} --modversion faltung)
string(STRIP "${output}" found)
if(NOT found STREQUAL VERSION)
  message(FATAL_ERROR "pkg-config: expected version ${VERSION}, got ${found}")
endif()
run(${PKG_CONFIG} --cflags --libs faltung)
string(STRIP "${output}" flags)
separate_arguments(flags UNIX_COMMAND "${flags} ${FLAGS}")
run(${C_COMPILER} -std=c99 -pedantic-errors -Wall -Werror ${SOURCE}/consumer.c -o ${WORK}/by_pkg_config ${flags} -Wl,-rpath,${library_folder})
run(${WORK}/by_pkg_config)

execute_process(COMMAND ${CMAKE_COMMAND} -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_FIND_PACKAGE_NAME=faltung
  -P ${SOURCE}/refused_version.cmake RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(code EQUAL 0 OR NOT output MATCHES "99")
  message(FATAL_ERROR "find_package(faltung 99) was expected to be refused, got ${code}: ${output}")
endif()
