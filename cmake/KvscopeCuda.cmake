# KVSCOPE_CUDA and what follows from it: whether there is a CUDA compiler, for which architectures, with which flags.
# Sets KVSCOPE_HAVE_CUDA. Included by the top CMakeLists.txt: a language is enabled above all that link it.
set(KVSCOPE_CUDA AUTO CACHE STRING "CUDA backend: AUTO (where there is a CUDA compiler), ON or OFF")
set_property(CACHE KVSCOPE_CUDA PROPERTY STRINGS AUTO ON OFF)
set(KVSCOPE_CUDA_ARCHITECTURES "" CACHE STRING
  "CMake's CUDA architectures, for example 90-real; empty: all from 8.0 that the compiler knows")

# All that nvcc knows of the architectures that the backend is for, and the newest as PTX for what comes after it.
function(kvscope_cuda_architectures result)
  if(KVSCOPE_CUDA_ARCHITECTURES)
    set(${result} "${KVSCOPE_CUDA_ARCHITECTURES}" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND "${CMAKE_CUDA_COMPILER}" --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
  string(REGEX MATCHALL "compute_[0-9]+" known "${known}")
  foreach(number 80 86 89 90 100 120)
    if("compute_${number}" IN_LIST known)
      list(APPEND found ${number}-real)
      set(newest ${number})
    endif()
  endforeach()
  set(${result} ${found} ${newest}-virtual PARENT_SCOPE)
endfunction()

set(KVSCOPE_HAVE_CUDA FALSE)
set(cuda_feature "not built (KVSCOPE_CUDA=${KVSCOPE_CUDA})")
if(NOT KVSCOPE_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "KVSCOPE_CUDA=${KVSCOPE_CUDA}: use AUTO, ON or OFF")
endif()
if(NOT KVSCOPE_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    # Before the language is enabled, which would otherwise choose nvcc's default.
    kvscope_cuda_architectures(CMAKE_CUDA_ARCHITECTURES)
    enable_language(CUDA)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake before 3.25.2 does not know that newer nvcc have C++20
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    find_package(CUDAToolkit REQUIRED)
    set(KVSCOPE_HAVE_CUDA TRUE)
    list(JOIN CMAKE_CUDA_ARCHITECTURES " " shown)
    set(cuda_feature "CUDA ${CMAKE_CUDA_COMPILER_VERSION}, architectures ${shown}")
  elseif(KVSCOPE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "KVSCOPE_CUDA=ON, but there is no CUDA compiler: install the CUDA toolkit (12.4 or newer) and set CUDACXX to its nvcc, or configure with KVSCOPE_CUDA=OFF")
  else()
    set(cuda_feature "not built (no CUDA compiler found; CUDACXX names one)")
  endif()
endif()
message(STATUS "CUDA backend: ${cuda_feature}")

# kvscope_cuda_options(TARGET): flags of its .cu files.
function(kvscope_cuda_options target)
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:\
--expt-relaxed-constexpr;-fmad=false;-Werror=all-warnings;-Xptxas=-warn-spills;\
-Xcompiler=-Wall,-Wextra,-ffp-contract=off>")
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/runner/backend/cuda/toolkit")
  target_link_libraries(${target} PUBLIC CUDA::cudart_static CUDA::cublas)
endfunction()
