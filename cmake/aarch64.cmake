# Toolchain for 64-bit Arm on another machine: Debian's cross compiler, and the -dev packages unpacked in
# MUSTER_SYSROOT (deploy/package.sh fetches them). protoc and its gRPC plug-in are this machine's.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static CACHE STRING "Runs what was built, on this machine")

# try_compile has no other way to learn it.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MUSTER_SYSROOT)
set(CMAKE_FIND_ROOT_PATH ${MUSTER_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
# Debian's cross compiler brings its own C library; only the libraries above it are in the sysroot.
set(CMAKE_CXX_FLAGS_INIT "-isystem ${MUSTER_SYSROOT}/usr/include -isystem ${MUSTER_SYSROOT}/usr/include/aarch64-linux-gnu")
# Grace machines and RHEL have pages of 64 KiB.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-z,max-page-size=65536")
