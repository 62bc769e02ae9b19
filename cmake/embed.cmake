# Writes a source file that holds a text file as one string:
#   cmake -DFILE=text -DHEADER=path/name.h -DFUNCTION=Name -DOUT=name.cc -P embed.cmake
file(READ "${FILE}" text)
file(WRITE "${OUT}" "// Made by the build.\n#include \"${HEADER}\"\n\nnamespace muster {\n\n"
                    "std::string_view ${FUNCTION}() {\n  return R\"muster-text(${text})muster-text\";\n}\n\n"
                    "}  // namespace muster\n")
