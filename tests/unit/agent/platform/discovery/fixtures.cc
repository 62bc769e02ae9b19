#include "tests/unit/agent/platform/discovery/fixtures.h"

#include <fstream>
#include <iterator>
#include <random>
#include <regex>
#include <sstream>

#include "absl/strings/str_replace.h"
#include "base/core/check.h"
#include "gtest/gtest.h"

namespace muster::discovery {
namespace {

std::vector<std::string> SplitBy(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

}  // namespace

std::optional<Fixture::Place> Fixture::StatedPlace() const {
  // Matches "rank 0 of 3 training nodes" and "rank 0 of 3"; the first match belongs to the default reading.
  static const std::regex kPlace("rank (\\d+) of (\\d+)");
  std::smatch match;
  if (!std::regex_search(reading, match, kPlace)) return std::nullopt;
  return Place{std::stoi(match[1]), std::stoi(match[2])};
}

void PrintTo(const Fixture& fixture, std::ostream* out) { *out << fixture.file << " (" << fixture.outcome << ")"; }

std::vector<Fixture> FixturesOf(const std::string& family) {
  std::vector<Fixture> fixtures;
  for (const std::string& line : SplitBy(ReadFixture("expected.tsv"), '\n')) {
    if (line.empty() || line.front() == '#') continue;
    const std::vector<std::string> columns = SplitBy(line, '\t');
    MUSTER_CHECK(columns.size() >= 4, "a row of expected.tsv has too few columns");
    if (columns[1] == family) fixtures.push_back({columns[0], columns[2], columns[3]});
  }
  return fixtures;
}

std::string ReadFixture(const std::string& file) {
  std::ifstream in(std::string(MUSTER_SOURCE_DIR "/tests/fixtures/") + file, std::ios::binary);
  MUSTER_CHECK(in.good(), file.c_str());
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

Environment EnvironmentOf(const std::string& file) {
  const std::string text = ReadFixture(file);
  if (!file.ends_with(".env")) return {{"CLUSTER_SPEC", text}};
  Environment environment;
  for (const std::string& line : SplitBy(text, '\n')) {
    const size_t equals = line.find('=');
    if (equals != std::string::npos) {
      environment[line.substr(0, equals)] = absl::StrReplaceAll(line.substr(equals + 1), {{"\\n", "\n"}});
    }
  }
  return environment;
}

FileReader ReaderOf(std::map<std::string, std::string> files) {
  return [files = std::move(files)](const std::string& path, size_t max_bytes) -> absl::StatusOr<std::string> {
    const auto found = files.find(path);
    if (found == files.end()) return absl::NotFoundError(path);
    if (found->second.size() > max_bytes) return absl::ResourceExhaustedError(path + ": more bytes than that");
    return found->second;
  };
}

absl::StatusOr<ClusterView> DiscoverWith(const Environment& environment, const DiscoverOptions& options,
                                         const std::map<std::string, std::string>& files) {
  const FileReader read_file = ReaderOf(files);
  return Discover({environment, read_file}, options);
}

void ExpectOneLine(const std::string& message) {
  constexpr size_t kMaxMessageChars = 400;
  EXPECT_LT(message.size(), kMaxMessageChars) << message;
  for (const char c : message) EXPECT_TRUE(c >= 0x20 && c < 0x7f) << "an unprintable character in: " << message;
}

std::vector<std::string> MutantsOf(const std::string& sample) {
  constexpr size_t kMaxTruncated = 1200;
  constexpr int kMutants = 300;
  constexpr std::string_view kBytes = "{}[]\",:0123456789eE+-.\\u \t\n#'tfn_\xff\xc3\x80\x7f";
  std::vector<std::string> mutants;
  for (size_t length = 0; sample.size() <= kMaxTruncated && length < sample.size(); ++length) {
    mutants.push_back(sample.substr(0, length));
  }
  std::mt19937 random(20260101);
  for (int i = 0; i < kMutants && !sample.empty(); ++i) {
    std::string mutant = sample;
    for (uint32_t edits = 1 + random() % 4; edits > 0 && !mutant.empty(); --edits) {
      const size_t at = random() % mutant.size();
      switch (random() % 4) {
        case 0:
          mutant[at] = kBytes[random() % kBytes.size()];
          break;
        case 1:
          mutant.insert(at, 1, kBytes[random() % kBytes.size()]);
          break;
        case 2:
          mutant.erase(at, 1 + random() % 8);
          break;
        default:
          mutant.insert(at, mutant.substr(random() % mutant.size(), random() % 40));
      }
    }
    mutants.push_back(std::move(mutant));
  }
  return mutants;
}

}  // namespace muster::discovery
