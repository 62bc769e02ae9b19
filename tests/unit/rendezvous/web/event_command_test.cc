// The command that is told of a job's events.
#include "rendezvous/web/event_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/io/event_loop.h"
#include "nlohmann/json.hpp"
#include "tests/unit/test_folder.h"

namespace muster::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::Events Of(const std::string& name, bool is_bad = true) {
  v1::Events events;
  v1::Event* const event = events.add_newest();
  event->set_name(name);
  event->set_is_bad(is_bad);
  return events;
}

class EventCommandTest : public ::testing::Test {
 protected:
  void Make(const std::string& command, const std::vector<std::string>& names = {}) {
    command_ = std::make_unique<EventCommand>(EventCommand::Plan{command, names, "job"},
                                              [this](const Note& note) { notes_.push_back(note.text); });
  }
  void Tell(const v1::Events& news) { command_->Tell(EventLoop::Now(), news); }
  // The names of the events that the command was told of, once all have been.
  std::vector<std::string> Told() {
    while (!command_->IsDone()) Tell({});
    std::vector<std::string> names;
    for (const absl::string_view line : absl::StrSplit(Content(path_), '\n', absl::SkipEmpty()))
      names.push_back(nlohmann::json::parse(line.begin(), line.end())["event"].get<std::string>());
    return names;
  }

  TestFolder folder_;
  const std::string path_ = folder_ / "told";
  const std::string append_ = absl::StrCat("cat >> ", path_);
  std::vector<std::string> notes_;
  std::unique_ptr<EventCommand> command_;
};

TEST_F(EventCommandTest, IsToldOfOneAtATimeInTheirOrder) {
  Make(append_);
  Tell(Of("node_lost"));
  Tell(Of("hang"));
  Tell(Of("round_started", false));
  EXPECT_THAT(Told(), ElementsAre("node_lost", "hang"));
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(EventCommandTest, TheFilterNamesThem) {
  Make(append_, {"round_started", "verdict"});
  Tell(Of("node_lost"));
  Tell(Of("round_started", false));
  EXPECT_THAT(Told(), ElementsAre("round_started"));
  EXPECT_TRUE(IsWanted(Of("anything", false).newest(0), {kAllEvents}));
  EXPECT_FALSE(IsWanted(Of("node_refused").newest(0), {})) << "strangers could make many";
}

TEST_F(EventCommandTest, AFailureIsSaidWithItsLastWords) {
  Make("echo first; echo no route >&2; exit 7");
  Tell(Of("hang"));
  EXPECT_THAT(Told(), IsEmpty());
  EXPECT_THAT(notes_, ElementsAre("--on-event: exit code 7: no route"));
}

TEST_F(EventCommandTest, CallersNeverWaitForIt) {
  const std::string go = folder_ / "go";
  Make(absl::StrCat("while ! [ -e ", go, " ]; do sleep 0.01; done; ", append_));
  for (size_t i = 0; i <= kMaxEventsQueued + 1; ++i) Tell(Of("hang"));  // the first one holds up the others
  EXPECT_THAT(notes_, ElementsAre("--on-event: 100 events wait for it; it is not told of further ones"));
  std::ofstream(go) << "go";
  EXPECT_FALSE(Told().empty());
}

TEST_F(EventCommandTest, FailuresWithoutEndAreNotSaidWithoutEnd) {
  Make("exit 1");
  for (int i = 0; i < 10; ++i) Tell(Of("hang"));
  EXPECT_THAT(Told(), IsEmpty());
  EXPECT_EQ(notes_.size(), static_cast<size_t>(kEventComplaintsBurst));
}

}  // namespace
}  // namespace muster::rendezvous
