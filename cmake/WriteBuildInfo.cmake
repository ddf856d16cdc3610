# cmake -DSOURCE_DIR=… -DVERSION=… -DCOMPILER=… -DOUTPUT=… -P WriteBuildInfo.cmake
# Leaves the header alone where nothing changed, so that nothing is compiled again.
set(sha "unknown")
set(dirty "false")
find_program(GIT git)
if(GIT)
  execute_process(COMMAND "${GIT}" -C "${SOURCE_DIR}" rev-parse --short=12 HEAD
    OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(sha "${head}")
    execute_process(COMMAND "${GIT}" -C "${SOURCE_DIR}" --no-optional-locks status --porcelain --untracked-files=no
      OUTPUT_VARIABLE changes ERROR_QUIET)
    if(NOT changes STREQUAL "")
      set(dirty "true")
    endif()
  endif()
endif()
set(text "#pragma once
#include <string_view>
namespace kvscope {
inline constexpr std::string_view kBuildVersion = \"${VERSION}\";
inline constexpr std::string_view kBuildGitSha = \"${sha}\";
inline constexpr bool kBuildGitDirty = ${dirty};
inline constexpr std::string_view kBuildCompiler = \"${COMPILER}\";
}
")
set(old "")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" old)
endif()
if(NOT old STREQUAL text)
  file(WRITE "${OUTPUT}" "${text}")
endif()
