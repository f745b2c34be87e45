# The GPU kernels, compiled into generated/kernels/cuda; included by the top CMakeLists.txt, in
# whose scope paths are relative to the root.
#
# The environment's HVDLITE_CUDA_COMPILER=auto|nvcc|nvrtc|none, or else CMake's variable of that
# name. Neither CUDA's headers nor its libraries are needed for the rest of the build.
set(HVDLITE_CUDA_COMPILER auto CACHE STRING "auto | nvcc | nvrtc | none: what compiles the GPU kernels")
set(CHOSEN_COMPILER auto)
# The environment's is not kept: another build in this folder may choose anew.
foreach(given IN ITEMS "${HVDLITE_CUDA_COMPILER}" "$ENV{HVDLITE_CUDA_COMPILER}")
  if(NOT given STREQUAL "")
    set(CHOSEN_COMPILER ${given})
  endif()
endforeach()
set(COMPILE_KERNELS ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/csrc/kernels/cuda/compile.py)
execute_process(COMMAND ${COMPILE_KERNELS} find ${CHOSEN_COMPILER}
  OUTPUT_VARIABLE KERNEL_COMPILER OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_VARIABLE problem)
if(failed)
  message(FATAL_ERROR "${problem}")
endif()
message(STATUS "GPU kernels: ${KERNEL_COMPILER}")

set(KERNEL_IMAGES_INC ${CMAKE_CURRENT_BINARY_DIR}/generated/kernels/cuda/images.inc)
# Compiled again when a source changes, or the compiler: its name is in this file, which is written
# only when it is another one.
set(KERNEL_COMPILER_NAME ${CMAKE_CURRENT_BINARY_DIR}/generated/kernel_compiler)
file(CONFIGURE OUTPUT ${KERNEL_COMPILER_NAME} CONTENT "${CHOSEN_COMPILER}: ${KERNEL_COMPILER}\n" @ONLY)
file(GLOB KERNEL_SOURCES CONFIGURE_DEPENDS csrc/kernels/cuda/*)
add_custom_command(
  OUTPUT ${KERNEL_IMAGES_INC}
  COMMAND ${COMPILE_KERNELS} build ${CHOSEN_COMPILER} ${CMAKE_CURRENT_BINARY_DIR}/generated/kernels/cuda
  DEPENDS ${KERNEL_SOURCES} ${KERNEL_COMPILER_NAME}
  COMMENT "GPU kernels: ${KERNEL_COMPILER}")
add_custom_target(hvdlite_kernel_images DEPENDS ${KERNEL_IMAGES_INC})
# The images are taken in by the assembler, whose inputs the build does not track.
set_property(SOURCE ${CMAKE_CURRENT_SOURCE_DIR}/csrc/kernels/cuda/image.cc APPEND PROPERTY OBJECT_DEPENDS ${KERNEL_IMAGES_INC})
