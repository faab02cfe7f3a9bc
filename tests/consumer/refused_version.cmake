# Must fail: no such version is installed.
find_package(faltung 99 REQUIRED CONFIG PATHS ${CMAKE_PREFIX_PATH} NO_DEFAULT_PATH)
