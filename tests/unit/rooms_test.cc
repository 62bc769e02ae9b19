// Which folder may include which: compares the map of dependencies with the includes. A new dependency is added
// here, and its reason to the folder's README.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace fs = std::filesystem;

// From the ground up: a folder includes only folders above it in this list. All may include base/, which is left
// out; base/ and cli/ count as one folder each.
struct Room {
  std::string name;
  std::set<std::string> includes;
};
const std::vector<Room>& Rooms() {
  static const std::vector<Room> rooms = {
      {"base", {}},
      {"rendezvous/core", {}},
      {"rendezvous/gate", {}},
      {"rendezvous/transport", {"rendezvous/gate"}},
      {"rendezvous/web", {}},
      {"rendezvous", {"rendezvous/core", "rendezvous/transport", "rendezvous/web"}},
      {"agent/platform/discovery", {}},
      {"agent/platform/machine", {}},
      {"agent/platform/notice", {"rendezvous/transport"}},
      {"agent/process/core", {}},
      {"agent/process",
       {"agent/process/core", "agent/platform/notice", "rendezvous", "rendezvous/core", "rendezvous/transport"}},
      {"agent/host/core", {}},
      {"agent/host/process", {"agent/host/core"}},
      {"agent/host/preload", {"agent/host/core", "agent/host/process"}},
      {"agent/host/output", {"agent/host/core"}},
      {"agent/host/report", {"agent/host/core"}},
      {"agent/host/watch", {"agent/host/core", "agent/host/process"}},
      {"agent/host",
       {"agent/host/core", "agent/host/process", "agent/host/preload", "agent/host/output", "agent/host/report",
        "agent/host/watch"}},
      {"cli",
       {"agent/process", "agent/platform/discovery", "agent/platform/machine", "agent/platform/notice",
        "agent/host", "agent/host/core", "agent/host/process", "agent/host/report", "rendezvous",
        "rendezvous/core", "rendezvous/gate", "rendezvous/transport", "rendezvous/web"}},
  };
  return rooms;
}

// The same order within a folder of several folders.
const std::vector<std::vector<std::string>> kFloors = {
    {"base/core", "base/text", "base/wire", "base/io", "base/console"},
    {"base/core", "base/text", "base/io", "base/proc"},
    {"cli/options", "cli/launchers", "cli/plan", "cli/env", "cli/status", "cli/watch", "cli/commands", "cli"},
};

constexpr size_t kMostArrows = 36;

std::string RoomOf(const std::string& folder) {
  const std::string top = folder.substr(0, folder.find('/'));
  return top == "base" || top == "cli" ? top : folder;
}

// An include of ours: "FROM_FOLDER/from.cc" includes "TO_FOLDER/to.h".
struct Include {
  std::string from_folder, from;  // without its end
  std::string to_folder, to;
  std::string where;  // file, number and text of the line
};

std::vector<Include> Includes() {
  std::vector<Include> includes;
  const fs::path root = MUSTER_SOURCE_DIR;
  const std::regex include(R"re(#include "((?:base|rendezvous|agent|cli)(?:/[^/"]+)*)/([^/"]*)\.h")re");
  for (const char* top : {"base", "rendezvous", "agent", "cli"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      const fs::path& path = entry.path();
      if (path.extension() != ".cc" && path.extension() != ".h") continue;
      const std::string folder = fs::relative(path.parent_path(), root).string();
      std::ifstream file(path);
      std::string line;
      for (int number = 1; std::getline(file, line); ++number) {
        std::smatch found;
        if (!std::regex_search(line, found, include)) continue;
        includes.push_back({folder, path.stem().string(), found[1], found[2],
                            path.string() + ":" + std::to_string(number) + ": " + line});
      }
    }
  }
  return includes;
}

// Folder of the file and folder of the included file, with the place of the include.
std::map<std::pair<std::string, std::string>, std::string> Arrows() {
  std::map<std::pair<std::string, std::string>, std::string> arrows;
  for (const Include& one : Includes()) {
    if (one.from_folder != one.to_folder) arrows.emplace(std::pair(one.from_folder, one.to_folder), one.where);
  }
  return arrows;
}

TEST(RoomsTest, IncludesMatchTheMapExactly) {
  std::set<std::pair<std::string, std::string>> used, allowed;
  for (const Room& room : Rooms()) {
    for (const std::string& included : room.includes) allowed.insert({room.name, included});
  }
  for (const auto& [arrow, where] : Arrows()) {
    const std::pair between(RoomOf(arrow.first), RoomOf(arrow.second));
    if (between.first == between.second || between.second == "base") continue;
    EXPECT_TRUE(allowed.count(between) > 0) << where;
    used.insert(between);
  }
  EXPECT_EQ(used, allowed);
  EXPECT_LE(allowed.size(), kMostArrows);
}

TEST(RoomsTest, NoFolderIncludesItsDependents) {
  std::set<std::string> below;
  for (const Room& room : Rooms()) {
    for (const std::string& included : room.includes) EXPECT_TRUE(below.count(included) > 0) << room.name;
    below.insert(room.name);
  }
  const auto arrows = Arrows();
  for (const std::vector<std::string>& floors : kFloors) {
    for (auto low = floors.begin(); low != floors.end(); ++low) {
      for (auto high = low + 1; high != floors.end(); ++high) {
        const auto arrow = arrows.find({*low, *high});
        EXPECT_TRUE(arrow == arrows.end()) << arrow->second;
      }
    }
  }
  EXPECT_EQ(arrows.count({"base/console", "base/proc"}) + arrows.count({"base/proc", "base/console"}), 0u);
}

// A module is a header with its source. What a module includes of its folder, down to the last one.
void Descend(const std::string& module, const std::map<std::string, std::set<std::string>>& includes,
             std::set<std::string>* below) {
  const auto own = includes.find(module);
  if (own == includes.end()) return;
  for (const std::string& included : own->second) {
    if (below->insert(included).second) Descend(included, includes, below);
  }
}

TEST(RoomsTest, NoModuleIncludesItsDependents) {
  std::map<std::string, std::map<std::string, std::set<std::string>>> folders;
  for (const Include& one : Includes()) {
    if (one.from_folder == one.to_folder && one.from != one.to) folders[one.from_folder][one.from].insert(one.to);
  }
  EXPECT_GT(folders.size(), 15u) << "no sources found: have the folders moved?";
  for (const auto& [folder, includes] : folders) {
    for (const auto& [module, unused] : includes) {
      std::set<std::string> below;
      Descend(module, includes, &below);
      EXPECT_EQ(below.count(module), 0u) << folder << "/" << module << " includes itself by way of others";
    }
  }
}

// A host and its agent may be two containers of a pod, so code that both need is in base/. What the node knows of
// its surroundings may be read by both.
TEST(RoomsTest, HostAndAgentProcessDoNotIncludeEachOther) {
  const std::regex room("agent/(host|process|platform).*");
  for (const auto& [arrow, where] : Arrows()) {
    std::smatch from, to;
    const bool within_agent =
        std::regex_match(arrow.first, from, room) && std::regex_match(arrow.second, to, room);
    if (!within_agent || from[1] == to[1]) continue;
    EXPECT_EQ(to[1], "platform") << where;
  }
}

}  // namespace
