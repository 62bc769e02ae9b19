#include "base/io/stored_archive.h"

#include <cstdint>

namespace muster {
namespace {

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

// What the local header of a file and its entry in the central directory have in common.
std::string CommonHeader(const ArchivedFile& file) {
  constexpr uint32_t kVersion = 20, kStored = 0, kMidnight = 0, kFirstOf1980 = (1 << 5) | 1;
  const auto size = static_cast<uint32_t>(file.content.size());
  std::string header;
  Put(kVersion, 2, &header);
  Put(0, 2, &header);  // flags
  Put(kStored, 2, &header);
  Put(kMidnight, 2, &header);
  Put(kFirstOf1980, 2, &header);
  Put(Checksum(file.content), 4, &header);
  Put(size, 4, &header);  // compressed
  Put(size, 4, &header);
  Put(static_cast<uint32_t>(file.name.size()), 2, &header);
  Put(0, 2, &header);  // extra field
  return header;
}

// An entry of the central directory. offset: of the file's local header.
std::string DirectoryEntry(const ArchivedFile& file, uint32_t offset) {
  constexpr uint32_t kMadeBy = 20;
  std::string entry = "PK\x01\x02";
  Put(kMadeBy, 2, &entry);
  entry += CommonHeader(file);
  Put(0, 2, &entry);  // comment
  Put(0, 2, &entry);  // disk
  Put(0, 2, &entry);  // internal attributes
  Put(0, 4, &entry);  // external attributes
  Put(offset, 4, &entry);
  return entry.append(file.name);
}

}  // namespace

// The records of APPNOTE 4.3.7 (local header), 4.3.12 (central directory) and 4.3.16 (its end).
std::string StoredArchive(const std::vector<ArchivedFile>& files) {
  std::string archive, directory;
  for (const ArchivedFile& file : files) {
    directory += DirectoryEntry(file, static_cast<uint32_t>(archive.size()));
    archive += "PK\x03\x04" + CommonHeader(file);
    archive.append(file.name).append(file.content);
  }
  const auto offset = static_cast<uint32_t>(archive.size());
  archive += directory + "PK\x05\x06";
  Put(0, 4, &archive);  // disks
  Put(static_cast<uint32_t>(files.size()), 2, &archive);
  Put(static_cast<uint32_t>(files.size()), 2, &archive);
  Put(static_cast<uint32_t>(directory.size()), 4, &archive);
  Put(offset, 4, &archive);
  Put(0, 2, &archive);  // comment
  return archive;
}

}  // namespace muster
