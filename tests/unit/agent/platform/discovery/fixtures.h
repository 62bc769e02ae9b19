// The samples of tests/fixtures and their right readings, for tests that are driven from expected.tsv.
#pragma once

#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "agent/platform/discovery/discover.h"

namespace muster::discovery {

struct Fixture {
  std::string file;
  std::string outcome;  // ok, aux, warn, error, limit, unset
  std::string reading;  // description of the right reading, or of the error

  // "rank R of N" if the reading has it.
  struct Place {
    int rank;
    int count;
  };
  std::optional<Place> StatedPlace() const;
};

void PrintTo(const Fixture& fixture, std::ostream* out);

// The rows of one family of expected.tsv, in its order.
std::vector<Fixture> FixturesOf(const std::string& family);

// The bytes of a file of tests/fixtures. A file that cannot be read ends the test program.
std::string ReadFixture(const std::string& file);

// A .json fixture is the value of CLUSTER_SPEC, an .env fixture a whole environment.
Environment EnvironmentOf(const std::string& file);

// Discover() on a machine that has these variables and files and nothing else.
absl::StatusOr<ClusterView> DiscoverWith(const Environment& environment, const DiscoverOptions& options = {},
                                         const std::map<std::string, std::string>& files = {});

// A reader of files that are kept in a map; absent files give the errors of a disk.
FileReader ReaderOf(std::map<std::string, std::string> files);

// Fails the test unless the message is one short line of printable ASCII.
void ExpectOneLine(const std::string& message);

// All truncations of a small sample and some hundred random mutants, the same every time.
std::vector<std::string> MutantsOf(const std::string& sample);

}  // namespace muster::discovery
