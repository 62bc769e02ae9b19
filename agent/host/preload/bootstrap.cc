#include "agent/host/preload/bootstrap.h"

#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <cstdint>

#include "base/io/memory_file.h"

namespace muster::host {
namespace {

constexpr char kModule[] = "sitecustomize.py";

// CRC-32 of ZIP (APPNOTE 4.4.7): reversed polynomial 0xedb88320.
uint32_t Checksum(std::string_view content) {
  uint32_t sum = 0xffffffffu;
  for (const char c : content) {
    sum ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) != 0 ? 0xedb88320u : 0);
  }
  return ~sum;
}

void Put(uint32_t value, int bytes, std::string* out) {
  for (int i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

}  // namespace

// The records of APPNOTE 4.3.7 (local header), 4.3.12 (central directory) and 4.3.16 (its end).
std::string StoredArchive(std::string_view name, std::string_view content) {
  const auto size = static_cast<uint32_t>(content.size());
  const auto name_size = static_cast<uint32_t>(name.size());
  constexpr uint32_t kVersion = 20, kStored = 0, kMidnight = 0, kFirstOf1980 = (1 << 5) | 1;
  std::string common;  // of both headers
  Put(kVersion, 2, &common);
  Put(0, 2, &common);  // flags
  Put(kStored, 2, &common);
  Put(kMidnight, 2, &common);
  Put(kFirstOf1980, 2, &common);
  Put(Checksum(content), 4, &common);
  Put(size, 4, &common);  // compressed
  Put(size, 4, &common);
  Put(name_size, 2, &common);
  Put(0, 2, &common);  // extra field

  std::string archive = "PK\x03\x04" + common;
  archive += name;
  archive += content;
  const auto directory = static_cast<uint32_t>(archive.size());
  archive += "PK\x01\x02";
  Put(kVersion, 2, &archive);  // made by
  archive += common;
  Put(0, 2, &archive);  // comment
  Put(0, 2, &archive);  // disk
  Put(0, 2, &archive);  // internal attributes
  Put(0, 4, &archive);  // external attributes
  Put(0, 4, &archive);  // offset of the local header
  archive += name;
  const auto directory_size = static_cast<uint32_t>(archive.size()) - directory;
  archive += "PK\x05\x06";
  Put(0, 4, &archive);  // disks
  Put(1, 2, &archive);
  Put(1, 2, &archive);
  Put(directory_size, 4, &archive);
  Put(directory, 4, &archive);
  Put(0, 2, &archive);  // comment
  return archive;
}

absl::StatusOr<OwnedFd> BootstrapArchive() {
  return MemoryFile("muster-bootstrap", StoredArchive(kModule, BootstrapText()));
}

}  // namespace muster::host
