// The order in which a driver handles events and carries out effects.
#include "base/core/driver.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <variant>
#include <vector>

namespace muster {
namespace {

struct Print {
  std::string text;
};
// Carried out by feeding the core another event.
struct Cause {
  std::string word;
};
using Effect = std::variant<Print, Cause, Note>;
using Effects = std::vector<Effect>;

// Answers each word with the effects that were set for it.
class Parrot {
 public:
  void OnWord(BootTime now, const std::string& word, Effects* out) {
    heard.push_back(word);
    times.push_back(now);
    const auto found = answers.find(word);
    if (found != answers.end()) *out = found->second;
  }
  void OnNumber(BootTime, int number, const std::string& unit, Effects* out) {
    out->push_back(Print{std::to_string(number) + " " + unit});
  }
  void OnTick(BootTime now, Effects*) { times.push_back(now); }

  std::vector<std::string> heard;
  std::vector<BootTime> times;
  std::map<std::string, Effects> answers;
};

class DriverTest : public ::testing::Test {
 protected:
  void Hear(const std::string& word) { driver_.Feed(&Parrot::OnWord, word); }

  void CarryOut(const Print& print) {
    done_.push_back(print.text);
    if (print.text == "an hour passes") passed_ = absl::Hours(1);
  }
  void CarryOut(const Cause& cause) {
    done_.push_back("cause " + cause.word);
    std::string word = cause.word;
    Hear(word);
    word = "overwritten";  // a waiting event must not refer to it
    done_.push_back("caused " + cause.word);
  }

  Parrot core_;
  int reads_ = 0;  // of the clock
  absl::Duration passed_ = absl::ZeroDuration();
  std::vector<std::string> done_;
  CoreDriver<Parrot, Effect> driver_{
      &core_,
      {.clock = [this] { return FromBootNanos(++reads_) + passed_; },
       .carry_out = ByType<Effect>([this](const auto& effect) { CarryOut(effect); }),
       .log = [this](const Note& note) { done_.push_back("log " + note.text); }}};
};

using Lines = std::vector<std::string>;

TEST_F(DriverTest, EffectsAreCarriedOutInOrder) {
  core_.answers["a"] = {Print{"1"}, Note{Severity::kInfo, "2"}, Print{"3"}};
  Hear("a");
  EXPECT_EQ(done_, Lines({"1", "log 2", "3"}));
}

TEST_F(DriverTest, AnEventCarriesSeveralValues) {
  driver_.Feed(&Parrot::OnNumber, 7, "apples");
  EXPECT_EQ(done_, Lines({"7 apples"}));
}

TEST_F(DriverTest, TheTimeIsReadOncePerEvent) {
  core_.answers["a"] = {Print{"1"}, Print{"2"}, Cause{"b"}};
  Hear("a");
  driver_.Feed(&Parrot::OnTick);
  EXPECT_EQ(core_.times, std::vector<BootTime>({FromBootNanos(1), FromBootNanos(2), FromBootNanos(3)}));
  EXPECT_EQ(reads_, 3);
}

TEST_F(DriverTest, AnEventOfAnEffectWaitsForTheOtherEffects) {
  core_.answers["a"] = {Cause{"b"}, Print{"rest of a"}};
  core_.answers["b"] = {Print{"b"}};
  Hear("a");
  EXPECT_EQ(done_, Lines({"cause b", "caused b", "rest of a", "b"}));
  EXPECT_EQ(core_.heard, Lines({"a", "b"}));
}

TEST_F(DriverTest, WaitingEventsKeepTheOrderOfTheirArrival) {
  core_.answers["a"] = {Cause{"b"}, Cause{"c"}};
  core_.answers["b"] = {Cause{"d"}};
  Hear("a");
  EXPECT_EQ(core_.heard, Lines({"a", "b", "c", "d"}));
}

// The present time, not that of the arrival: effects may take long, and a core must not mistake that for silence
// of others.
TEST_F(DriverTest, AWaitingEventGetsTheTimeOfItsHandling) {
  core_.answers["a"] = {Cause{"b"}, Print{"an hour passes"}};
  Hear("a");
  EXPECT_EQ(core_.times.back() - core_.times.front(), absl::Hours(1) + absl::Nanoseconds(1));
}

}  // namespace
}  // namespace muster
