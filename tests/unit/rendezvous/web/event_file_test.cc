// The file of a job's events.
#include "rendezvous/web/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "rendezvous/web/event_json.h"
#include "tests/unit/test_folder.h"

namespace muster::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::Events One(uint64_t number) {
  v1::Events events;
  v1::Event* const event = events.add_newest();
  event->set_name("round_started");
  event->set_text("round begins");
  event->set_number(number);
  return events;
}

class EventFileTest : public ::testing::Test {
 protected:
  void Tell(uint64_t number) { file_.Write(now_, One(number)); }
  void WaitUntilDone() {
    while (!file_.IsDone()) file_.Write(now_, {});
  }
  std::vector<std::string> Lines() const { return absl::StrSplit(Content(path_), '\n', absl::SkipEmpty()); }

  TestFolder folder_;
  std::string path_ = folder_ / "events.jsonl";
  BootTime now_ = FromBootNanos(1'000'000'000'000);
  std::vector<std::string> notes_;
  EventFile file_{path_, "job", [this](const Note& note) { notes_.push_back(note.text); }};
};

TEST_F(EventFileTest, EachEventIsALineAfterThoseThatAreThere) {
  std::ofstream(path_) << "earlier\n";
  Tell(1);
  Tell(2);
  WaitUntilDone();
  const std::vector<std::string> lines = Lines();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], "earlier");
  const auto event = nlohmann::json::parse(lines[2]);
  EXPECT_EQ(event["event"], "round_started");
  EXPECT_EQ(event["run_id"], "job");
  EXPECT_EQ(event["number"], 2);
}

TEST_F(EventFileTest, AFailureIsNamedAndLaterEventsAreWritten) {
  std::filesystem::create_directory(path_);
  Tell(1);
  WaitUntilDone();
  EXPECT_THAT(notes_,
              ElementsAre(HasSubstr("events.jsonl: it cannot be opened: Is a directory; events are missing")));
  std::filesystem::remove(path_);
  Tell(2);
  WaitUntilDone();
  ASSERT_EQ(Lines().size(), 1u);
  EXPECT_EQ(nlohmann::json::parse(Lines()[0])["number"], 2);
}

TEST_F(EventFileTest, FailuresWithoutEndAreNotNamedWithoutEnd) {
  std::filesystem::create_directory(path_);
  for (uint64_t i = 0; i < 10; ++i) {
    Tell(i);
    WaitUntilDone();
  }
  EXPECT_EQ(notes_.size(), static_cast<size_t>(kEventComplaintsBurst));
}

TEST_F(EventFileTest, AFullFileGetsNoMore) {
  std::ofstream(path_).seekp(kMaxEventFileBytes - 1) << "\n";
  Tell(1);
  WaitUntilDone();
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("it has 64 MiB; events are missing")));
  EXPECT_EQ(std::filesystem::file_size(path_), kMaxEventFileBytes);
}

TEST_F(EventFileTest, AFileSystemThatDoesNotAnswerMakesNobodyWait) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);  // nobody reads it yet
  v1::Events many;
  for (int i = 0; i < 10'000; ++i) *many.add_newest() = One(1).newest(0);
  Tell(1);
  file_.Write(now_, many);
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("its file system does not answer"), HasSubstr(""), HasSubstr("")));
  EXPECT_FALSE(file_.IsDone());
  std::thread([this] { (void)Content(path_); }).join();  // opens it, and reads to its end
}

TEST(EventJson, AnAnswerThatWasKeptDoesNotMakeAnEventLater) {
  v1::Event event;
  event.set_age_ms(1'500);
  event.set_wall_ms(1'800'000'000'000);
  EXPECT_EQ(TimeOf(event, absl::FromUnixSeconds(1'900'000'000)), absl::FromUnixSeconds(1'800'000'000));
}

TEST(EventJson, TheTimeIsThatOfTheEventAndWhatIsUnknownIsLeftOut) {
  v1::Event event;
  event.set_name("recovered");
  event.set_age_ms(1'500);
  event.set_round(2);
  event.mutable_recovery()->set_gathering_ms(250);
  const auto json = nlohmann::json::parse(EventJson(event, "job", absl::FromUnixSeconds(1'800'000'000)));
  EXPECT_EQ(json["time"], "2027-01-15T07:59:58.500Z");
  EXPECT_EQ(json["recovery"], nlohmann::json({{"gathering_s", 0.25}}));
  EXPECT_FALSE(json.contains("rank"));
  EXPECT_FALSE(json.contains("host"));
}

}  // namespace
}  // namespace muster::rendezvous
