// The private dialect that comments and names once had: it stays away.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

namespace fs = std::filesystem;

struct Word {
  std::string_view part;  // of each line that has it: a regular expression alone would take seconds
  std::regex pattern;
  std::string_view instead;
};

const std::vector<Word>& Dialect() {
  static const std::vector<Word> words = {
      {"// Of", std::regex(R"(// Of\b)"), "a sentence with a subject"},
      {"Who", std::regex(R"(//.*\bWho(ever|m)\b)"), "the thing that acts: a node, a process, a stranger"},
      {"_said", std::regex(R"(\w_said_?\b)"), "reported"},
      {"is none", std::regex(R"(//(?!.*there is none).*\bis none\b)"), "what it is instead"},
  };
  return words;
}

std::string WrongWordIn(const std::string& line) {
  for (const Word& word : Dialect()) {
    if (line.find(word.part) != std::string::npos && std::regex_search(line, word.pattern))
      return std::string(word.instead);
  }
  return "";
}

TEST(WordsTest, SourcesAreFreeOfADialectOfTheirOwn) {
  const fs::path root = MUSTER_SOURCE_DIR;
  int files = 0;
  for (const char* folder : {"agent", "base", "cli", "proto", "rendezvous", "tests"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string end = entry.path().extension();
      if (end != ".cc" && end != ".h" && end != ".proto") continue;
      if (entry.path().filename() == "words_test.cc") continue;
      ++files;
      std::ifstream file(entry.path());
      std::string line;
      for (int number = 1; std::getline(file, line); ++number) {
        const std::string instead = WrongWordIn(line);
        EXPECT_EQ(instead, "") << entry.path() << ":" << number << ": " << line;
      }
    }
  }
  EXPECT_GT(files, 300);
}

TEST(WordsTest, EachIsFound) {
  for (const char* line : {"// Of the node.", "int a;  // Of the node", "// Whoever waits",
                           "  // a node. Whom it asks", "bool cold_is_said = false;", "// empty: it is none"}) {
    EXPECT_NE(WrongWordIn(line), "") << line;
  }
  for (const char* line : {"// Often.", "// empty: there is none", "// what it said", "std::string none;"})
    EXPECT_EQ(WrongWordIn(line), "") << line;
}

}  // namespace
