# cmake -DINPUT=… -DOUTPUT=… -DHEADER=… -DNAME=… -P EmbedText.cmake
# Writes a source file that defines kvscope::conform::NAME, declared in HEADER, as the text of INPUT.
file(READ "${INPUT}" text)
file(WRITE "${OUTPUT}" "#include \"${HEADER}\"
namespace kvscope::conform {
const std::string_view ${NAME} = R\"embedded(${text})embedded\";
}
")
