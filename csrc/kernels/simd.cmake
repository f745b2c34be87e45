# Flags of the kernels; included by the top CMakeLists.txt, in whose scope paths are relative to the
# root.
#
# -ffp-contract=off everywhere: a fused multiply-add rounds once where the others round twice, and
# the tables of all instruction sets must give the same bits. -O3 also in sanitizer builds: the
# property tests are slow without it.
file(GLOB_RECURSE HVDLITE_KERNEL_SOURCES CONFIGURE_DEPENDS csrc/kernels/*.cc)
set_property(SOURCE ${HVDLITE_KERNEL_SOURCES} APPEND PROPERTY COMPILE_OPTIONS -O3 -ffp-contract=off)

# On other processors these files compile to nothing.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64" AND NOT CMAKE_OSX_ARCHITECTURES MATCHES "arm64")
  set_property(SOURCE ${CMAKE_CURRENT_SOURCE_DIR}/csrc/kernels/cpu/table_avx2.cc
    APPEND PROPERTY COMPILE_OPTIONS -mavx2 -mf16c)
  set_property(SOURCE ${CMAKE_CURRENT_SOURCE_DIR}/csrc/kernels/cpu/table_avx512.cc
    APPEND PROPERTY COMPILE_OPTIONS -mavx2 -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl)
endif()
