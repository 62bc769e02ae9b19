#include "base/proc/start_pages.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace muster {
namespace {

// The first object is the program itself. Segments that cannot be written are the same as in the file.
int DropCleanSegments(dl_phdr_info* program, size_t, void*) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  for (int i = 0; i < program->dlpi_phnum; ++i) {
    const auto& segment = program->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
    const uintptr_t begin = (program->dlpi_addr + segment.p_vaddr) & ~(page - 1);
    const uintptr_t end = program->dlpi_addr + segment.p_vaddr + segment.p_memsz;
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
  return 1;  // no further object
}

}  // namespace

void DropStartPages() { dl_iterate_phdr(DropCleanSegments, nullptr); }

}  // namespace muster
