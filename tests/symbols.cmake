# cmake -DNM=... -DLIBRARY=... -P symbols.cmake
# libfaltung exports the C ABI and the few C++ symbols that libfaltung_cuda needs, and nothing else.
execute_process(COMMAND ${NM} -D --defined-only -C ${LIBRARY} OUTPUT_VARIABLE listing COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE ";" "," listing "${listing}")
string(REPLACE "\n" ";" lines "${listing}")
set(allowed
  "^faltung_[a-z0-9_]+$"
  "^faltung::[a-z0-9_]+::register_backend\\("
  "^faltung::[a-z0-9_]+::to_string"
  "^faltung::causal_conv1d::cpu::(cut|check_content)\\("
  "^(typeinfo|typeinfo name|vtable) for faltung::Failure$")
set(count 0)
foreach(line IN LISTS lines)
  if(NOT line MATCHES "^[0-9a-f]+ [A-Za-z] (.+)$")
    continue()
  endif()
  set(symbol "${CMAKE_MATCH_1}")
  set(known FALSE)
  foreach(pattern IN LISTS allowed)
    if(symbol MATCHES "${pattern}")
      set(known TRUE)
    endif()
  endforeach()
  if(NOT known)
    list(APPEND strangers "${symbol}")
  endif()
  math(EXPR count "${count} + 1")
endforeach()
foreach(needed faltung_long_conv_forward faltung_last_error "typeinfo for faltung::Failure" "faltung::long_conv::register_backend")
  string(FIND "${listing}" "${needed}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${LIBRARY} does not export ${needed}")
  endif()
endforeach()
if(strangers)
  list(JOIN strangers "\n  " text)
  message(FATAL_ERROR "${LIBRARY} exports what cmake/faltung.map does not mean to:\n  ${text}")
endif()
message(STATUS "${count} exported symbols, all in the list")
