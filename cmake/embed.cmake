# Writes a source file that holds all Python files below a folder, with their names relative to it:
#   cmake -DFOLDER=folder -DHEADER=path/name.h -DNAMESPACE=muster::part -DFUNCTION=Name -DOUT=name.cc -P embed.cmake
file(GLOB_RECURSE names RELATIVE "${FOLDER}" "${FOLDER}/*.py")
set(entries "")
foreach(name IN LISTS names)
  file(READ "${FOLDER}/${name}" text)
  string(APPEND entries "      {\"${name}\", R\"muster-text(${text})muster-text\"},\n")
endforeach()
file(WRITE "${OUT}" "// Made by the build.\n#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n\n"
                    "std::vector<ArchivedFile> ${FUNCTION}() {\n  return {\n${entries}  };\n}\n\n"
                    "}  // namespace ${NAMESPACE}\n")
