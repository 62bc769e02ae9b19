// The files that report a job's end, and the last lines of a worker's output.
#include "agent/host/report/job_end.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <thread>

#include "agent/host/report/failure_details.h"
#include "base/console/output_tail.h"
#include "tests/unit/test_folder.h"

namespace muster::host {
namespace {

namespace fs = std::filesystem;

TEST(ReportPathTest, EachNodeMayHaveItsOwnPath) {
  JobEnd end;
  end.host = "h";
  EXPECT_EQ(ReportPath("r.json", end), "r.json");
  EXPECT_EQ(ReportPath("${hostname}-${node_rank}$x.json", end), "h-none$x.json");
  end.place = 2;
  EXPECT_EQ(ReportPath("r$node_rank.json", end), "r2.json");
  end.last.set_node_rank(1);
  EXPECT_EQ(ReportPath("r${node_rank}.json", end), "r1.json");
}

TEST(StreamAtTest, AStreamsFileIsRecognizedByAnyName) {
  const TestFolder folder;
  { const std::ofstream log(folder / "log"), other(folder / "other"); }
  ASSERT_EQ(symlink("log", (folder / "link").c_str()), 0);
  ASSERT_EQ(link((folder / "log").c_str(), (folder / "hard").c_str()), 0);
  struct stat info = {};
  ASSERT_EQ(stat((folder / "log").c_str(), &info), 0);
  const std::vector<StreamFile> streams = {{1, info.st_dev + 1, info.st_ino}, {2, info.st_dev, info.st_ino}};
  for (const char* name : {"log", "link", "hard"}) EXPECT_EQ(StreamAt(folder / name, streams), 2) << name;
  EXPECT_EQ(StreamAt(folder / "other", streams), std::nullopt);
  EXPECT_EQ(StreamAt(folder / "absent", streams), std::nullopt);
  EXPECT_NE(StreamAt("/dev/stderr", OwnStreams()), std::nullopt);
}

// The caller writes reports for a stream itself, so that they follow the lines before them.
TEST(ReportsTest, AStreamsFileIsLeftToTheCaller) {
  const TestFolder folder;
  std::ofstream(folder / "log") << "a line\n";
  struct stat before = {}, after = {};
  ASSERT_EQ(stat((folder / "log").c_str(), &before), 0);
  ReportPlan plan;
  plan.report_file = folder / "log";
  plan.termination_log = folder / "log";
  plan.outer_streams = {{2, before.st_dev, before.st_ino}};
  const JobEnd end;
  Reports reports(plan, end);
  ASSERT_TRUE(reports.Await(absl::Seconds(60)));
  const Reports::Result result = reports.Take();
  ASSERT_EQ(result.for_streams.size(), 2u);
  EXPECT_EQ(result.for_streams[0], std::pair(2, ReportJson(end, JsonLayout::kOneLine)));
  EXPECT_EQ(result.for_streams[1], std::pair(2, TerminationMessage(end)));
  EXPECT_TRUE(result.problems.empty());
  ASSERT_EQ(stat((folder / "log").c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_EQ(Content(folder / "log"), "a line\n");

  plan.told_elsewhere = true;  // another node of muster local writes it
  Reports silent(plan, end);
  ASSERT_TRUE(silent.Await(absl::Seconds(60)));
  EXPECT_TRUE(silent.Take().for_streams.empty());
}

TEST(WriteReportsTest, OneFailedReportStopsNoOther) {
  const TestFolder folder;
  std::ofstream(folder / "log") << "";
  JobEnd end;
  end.exit_code = 3;
  end.verdict.emplace();
  end.verdict->set_exit_code(3);
  end.verdict->mutable_root_cause()->set_exit_code(3);
  WriteReports({.report_file = folder / "no/where",
                .error_file = folder / "error",
                .failure_file = "",
                .termination_log = folder / "log"},
               end);
  EXPECT_EQ(Content(folder / "error"), ErrorFileJson(end));
  EXPECT_EQ(Content(folder / "log"), TerminationMessage(end));
}

// ---- last lines ----

std::string Lines(int first, int last) {
  std::string text;
  for (int i = first; i <= last; ++i) text += "line " + std::to_string(i) + "\n";
  return text;
}

TEST(LastLinesTest, TheLastTwentyAreKept) {
  const std::string last = Lines(81, 100);
  EXPECT_EQ(LastLines(Lines(1, 100)), last.substr(0, last.size() - 1));
  EXPECT_EQ(LastLines("one\ntwo"), "one\ntwo");
  EXPECT_EQ(LastLines(""), "");
  EXPECT_EQ(LastLines("\n \n\n"), "");
  EXPECT_EQ(LastLines("a\n\nb\n\n\n"), "a\n\nb");
}

TEST(LastLinesTest, ARedrawnLineShowsItsLastState) {
  EXPECT_EQ(LastLines("10%\r50%\r99%\r\nerror\r\n"), "99%\nerror");
}

TEST(LastLinesTest, LinesAreBoundedAndValidUtf8) {
  const std::string last = LastLines("first\n" + std::string(10'000, 'x') + "\xff\xc3\xa4\nend\n");
  EXPECT_LE(last.size(), kTailBytes);
  EXPECT_GT(last.size(), kTailBytes - 8);
  EXPECT_TRUE(last.ends_with("x?\xc3\xa4\nend")) << last.substr(last.size() - 12);
}

TEST(OutputTailTest, KeepsTheEndOfMuchOutputInLittleMemory) {
  OutputTail tail;
  for (int i = 0; i < 50'000; i += 10) tail.Feed(Lines(i + 1, i + 10));
  EXPECT_EQ(tail.Last(), LastLines(Lines(49'000, 50'000)));
  tail.Feed(std::string(10 * kTailKept, 'y') + "\nz");
  EXPECT_TRUE(tail.Last().ends_with("y\nz"));
  EXPECT_FALSE(tail.ended());
  tail.End();
  EXPECT_TRUE(tail.ended());
}

TEST(LastLinesOfFileTest, TheFilesEndIsRead) {
  const TestFolder folder;
  std::ofstream(folder / "stderr.log") << Lines(1, 50'000);
  EXPECT_EQ(LastLinesOfFile(folder / "stderr.log"), LastLines(Lines(49'000, 50'000)));
  EXPECT_EQ(LastLinesOfFile(folder / "none"), "");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(LastLinesOfFile(folder / "pipe"), "");
}

// ---- last words ----

TEST(FailureDetailsTest, TheErrorFileExplainsAFailureAndAReasonOfOursStandsBeforeIt) {
  const TestFolder folder;
  std::ofstream(folder / "error.json") << R"({"message": "own words", "timestamp": 17})";
  FailureDetails details;
  details.Expect(2, {.error_file = folder / "error.json", .kept = true});
  Ending ending;
  details.Explain(2, &ending);
  EXPECT_EQ(ending.error_text, "own words");
  EXPECT_EQ(ending.failed_at_s, 17);
  EXPECT_EQ(ending.error_file, folder / "error.json");
  details.AddReason(2, "the timer expired");
  details.Explain(2, &ending);
  EXPECT_EQ(ending.error_text, "the timer expired\nown words");
  details.BeginRound(kDetailsLimit);
  Ending next;
  details.Explain(2, &next);
  EXPECT_EQ(next.error_text, "");
}

TEST(FailureDetailsTest, APrivateFilesPathIsNotShownAndAFileThatIsNotThereIsNone) {
  const TestFolder folder;
  std::ofstream(folder / "error.json") << R"({"message": "own words"})";
  FailureDetails details;
  details.Expect(0, {.error_file = folder / "error.json", .kept = false});
  details.Expect(1, {.error_file = folder / "other.json", .kept = true});
  Ending first, second;
  details.Explain(0, &first);
  details.Explain(1, &second);
  EXPECT_EQ(first.error_text, "own words");
  EXPECT_EQ(first.error_file, "");
  EXPECT_EQ(second.error_text + second.error_file, "");
}

TEST(FailureDetailsTest, OfALivingWorkerWhatItWroteLastIsShown) {
  const TestFolder folder;
  const auto tail = std::make_shared<OutputTail>();
  FailureDetails details;
  details.Expect(0, {.error_file = "", .err = {.file = folder / "err"}, .out = {.tail = tail}});
  EXPECT_EQ(details.OutputNow(0)(), "");
  std::ofstream(folder / "err") << "a warning\n";
  EXPECT_EQ(details.OutputNow(0)(), "a warning");
  tail->Feed("step 1\nstep 2\n");
  const auto an_hour_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  std::filesystem::last_write_time(std::string(folder / "err"), an_hour_ago);
  EXPECT_EQ(details.OutputNow(0)(), "step 1\nstep 2");
  EXPECT_EQ(details.OutputNow(1)(), "") << "no such worker";
}

TEST(FailureDetailsTest, AWorkerIsDoneIfItsFileIsThere) {
  const TestFolder folder;
  std::ofstream(folder / "done-0") << "";
  FailureDetails details;
  for (const int local_rank : {0, 1}) {
    details.Expect(local_rank, {.error_file = "", .done_file = folder / absl::StrCat("done-", local_rank)});
  }
  Ending first, second, unexpected;
  details.Explain(0, &first);
  details.Explain(1, &second);
  details.Explain(2, &unexpected);
  EXPECT_TRUE(first.done);
  EXPECT_FALSE(second.done);
  EXPECT_FALSE(unexpected.done);
}

TEST(FailureDetailsTest, AFileSystemThatDoesNotAnswerSaysNothingOfTheDoneFile) {
  std::promise<void> answers;
  FailureDetails details(ReadErrorFile, LastLinesOfFile,
                         [answer = answers.get_future().share()](const std::string&) {
                           answer.wait();
                           return true;
                         });
  details.BeginRound(absl::Milliseconds(5));
  details.Expect(0, {.error_file = "", .done_file = "done", .kept = false});
  Ending ending;
  details.Explain(0, &ending);
  EXPECT_FALSE(ending.done);
  answers.set_value();
}

// A read that hangs until the test ends, like a network file system whose server is away.
class SilentFileSystem {
 public:
  ~SilentFileSystem() { gone_.set_value(); }
  FailureDetails::Read reader() {
    return [gone = gone_.get_future().share(), asked = asked_](const std::string&) {
      ++*asked;
      gone.wait();
      return std::optional<WorkerError>();
    };
  }
  int asked() const { return *asked_; }

 private:
  std::promise<void> gone_;
  std::shared_ptr<std::atomic<int>> asked_ = std::make_shared<std::atomic<int>>(0);
};

TEST(FailureDetailsTest, AFileSystemThatDoesNotAnswerIsWaitedForOnceInARound) {
  const TestFolder folder;
  std::ofstream(folder / "stderr.log") << "of the file\n";
  SilentFileSystem silent;
  FailureDetails details(silent.reader());
  for (int round = 1; round <= 2; ++round) {
    details.BeginRound(absl::Milliseconds(100));
    for (int i = 0; i < 8; ++i) {
      details.Expect(i, {.error_file = "error.json", .kept = i > 0, .err = {.file = folder / "stderr.log"}});
    }
    for (int i = 0; i < 8; ++i) {
      Ending ending;
      details.Explain(i, &ending);
      EXPECT_EQ(ending.error_text, "the error file could not be read: its file system does not answer");
    }
    EXPECT_LE(silent.asked(), round);
  }
}

void AwaitComplete(const FailureDetails& details, int local_rank) {
  while (!details.Complete(local_rank)) std::this_thread::yield();
}

TEST(FailureDetailsTest, AnAbortIsExplainedByItsException) {
  const std::string said =
      "terminate called after throwing an instance of 'gloo::IoException'\n"
      "  what():  [pair.cc:553] Connection closed by peer [127.0.0.1]:1\n" +
      Lines(0, 100);
  const auto tail = std::make_shared<OutputTail>();
  FailureDetails details;
  details.BeginRound(kDetailsLimit);
  details.Expect(0, {.error_file = "", .err = {.tail = tail}});
  EXPECT_FALSE(details.HasHeardOut(0));
  tail->Feed(said);
  tail->End();
  EXPECT_TRUE(details.HasHeardOut(0));
  const TestFolder folder;
  const std::string path = folder / "stderr.log";
  std::ofstream(path) << said;
  details.Expect(1, {.error_file = "", .err = {.file = path}});
  for (const int local_rank : {0, 1}) {
    Ending ending{.by_signal = true, .number = SIGABRT};
    details.AddLastWords(local_rank, &ending);
    EXPECT_EQ(ending.error_text, "  what():  [pair.cc:553] Connection closed by peer [127.0.0.1]:1");
    EXPECT_EQ(ending.last_words, LastLines(said));
    ASSERT_TRUE(ending.spoke_at);
    EXPECT_LT(absl::AbsDuration(*ending.spoke_at - absl::Now()), absl::Minutes(1));
  }
  Ending exited{.number = 1};
  details.AddLastWords(0, &exited);
  EXPECT_EQ(exited.error_text, "");
  EXPECT_TRUE(details.HasHeardOut(2)) << "nothing is known of it";
}

TEST(FailureDetailsTest, NobodyWaitsForTheFileOfTheLastOutput) {
  std::promise<void> answers;
  FailureDetails details(ReadErrorFile, [answer = answers.get_future().share()](const std::string& path) {
    answer.wait();
    return "of " + path;
  });
  details.Expect(0, {.error_file = "", .kept = false, .err = {.file = "stderr.log"}});
  details.BeginLastOutput(0);
  EXPECT_FALSE(details.Complete(0));
  EXPECT_EQ(details.LastOutput(0), "") << "its file system does not answer";
  answers.set_value();
  AwaitComplete(details, 0);
  EXPECT_EQ(details.LastOutput(0), "of stderr.log");
  details.BeginRound(kDetailsLimit);
  EXPECT_EQ(details.LastOutput(0), "");
}

TEST(FailureDetailsTest, TheOutputIsThePipesElseTheFiles) {
  const TestFolder folder;
  std::ofstream(folder / "stderr.log") << "of the file\n";
  FailureDetails details;
  const auto tail = std::make_shared<OutputTail>();
  details.Expect(0, {.error_file = "", .kept = false, .err = {.file = folder / "stderr.log", .tail = tail}});
  details.Expect(1, {.error_file = "", .kept = false, .err = {.file = folder / "stderr.log"}});
  details.BeginLastOutput(0);
  EXPECT_FALSE(details.Complete(0));
  tail->Feed("of the pipe\n");
  tail->End();
  EXPECT_TRUE(details.Complete(0));
  EXPECT_EQ(details.LastOutput(0), "of the pipe");
  details.BeginLastOutput(1);
  AwaitComplete(details, 1);
  EXPECT_EQ(details.LastOutput(1), "of the file");
  details.BeginLastOutput(7);
  EXPECT_TRUE(details.Complete(7));
  EXPECT_EQ(details.LastOutput(7), "");
}

// As after "exec 2>&1" in a script.
TEST(FailureDetailsTest, StandardOutputSpeaksWhereStandardErrorIsEmpty) {
  const TestFolder folder;
  std::ofstream(folder / "stderr.log") << "";
  std::ofstream(folder / "stdout.log")
      << "Traceback (most recent call last):\n  File \"t.py\", line 1\nValueError: of the file\n";
  FailureDetails details;
  const auto err = std::make_shared<OutputTail>(), out = std::make_shared<OutputTail>();
  details.Expect(
      0, {.error_file = "", .err = {.file = folder / "stderr.log"}, .out = {.file = folder / "stdout.log"}});
  details.Expect(1, {.error_file = "", .err = {.tail = err}, .out = {.tail = out}});
  details.Expect(2, {.error_file = "", .err = {.file = folder / "stderr.log"}, .out = {.tail = out}});
  details.Expect(3, {.error_file = "", .err = {.tail = err}, .out = {.file = folder / "stdout.log"}});
  err->End();
  EXPECT_FALSE(details.HasHeardOut(1)) << "standard output may have more to say";
  out->Feed("Traceback (most recent call last):\n  File \"t.py\", line 1\nValueError: of the pipe\n");
  out->End();
  EXPECT_TRUE(details.HasHeardOut(1));
  for (const auto& [local_rank, from] : {std::pair(0, "file"), {1, "pipe"}, {2, "pipe"}, {3, "file"}}) {
    const std::string expected =
        absl::StrCat("Traceback (most recent call last):\n  File \"t.py\", line 1\nValueError: of the ", from);
    Ending ending{.number = 1};
    details.AddLastWords(local_rank, &ending);
    EXPECT_EQ(ending.last_words, expected) << local_rank;
    details.BeginLastOutput(local_rank);
    AwaitComplete(details, local_rank);
    EXPECT_EQ(details.LastOutput(local_rank), expected) << local_rank;
  }
}

TEST(FailureDetailsTest, StandardErrorThatNobodySeesIsNotEmpty) {
  const TestFolder folder;
  std::ofstream(folder / "stdout.log") << "step 100\n";
  const auto out = std::make_shared<OutputTail>();
  out->Feed("step 100\n");
  out->End();
  FailureDetails details;
  details.Expect(0, {.error_file = "", .out = {.file = folder / "stdout.log"}});
  details.Expect(1, {.error_file = "", .out = {.tail = out}});
  for (const int local_rank : {0, 1}) {
    Ending ending{.number = 1};
    details.AddLastWords(local_rank, &ending);
    EXPECT_EQ(ending.last_words, "");
    details.BeginLastOutput(local_rank);
    AwaitComplete(details, local_rank);
    EXPECT_EQ(details.LastOutput(local_rank), "");
  }
}

TEST(FailureDetailsTest, OfStandardOutputOnlyAnExceptionMayBeAnEcho) {
  const auto err = std::make_shared<OutputTail>(), out = std::make_shared<OutputTail>();
  FailureDetails details;
  details.Expect(0, {.error_file = "", .err = {.tail = err}, .out = {.tail = out}});
  err->End();
  out->Feed("Connection reset by peer, giving up\n");
  out->End();
  Ending ending{.number = 1};
  details.AddLastWords(0, &ending);
  EXPECT_EQ(ending.last_words, "");
  EXPECT_EQ(details.LastOutput(0), "Connection reset by peer, giving up");
}

TEST(FailureDetailsTest, AConsoleThatHoldsBackStandardOutputDelaysNothing) {
  FailureDetails details;
  const auto err = std::make_shared<OutputTail>();
  details.Expect(0, {.error_file = "", .err = {.tail = err}, .out = {.tail = std::make_shared<OutputTail>()}});
  err->Feed("ValueError: x\n");
  err->End();
  EXPECT_TRUE(details.HasHeardOut(0));
}

TEST(CheckReportFolder, AFolderThatCannotTakeItIsNamed) {
  const TestFolder folder;
  EXPECT_TRUE(CheckReportFolder("").ok()) << "none is wanted";
  EXPECT_TRUE(CheckReportFolder(folder / "report.json").ok());
  EXPECT_TRUE(CheckReportFolder("report.json").ok());
  EXPECT_TRUE(CheckReportFolder("/dev/stdout").ok());
  EXPECT_TRUE(CheckReportFolder("/nowhere/${node_rank}/report.json").ok()) << "its name is still open";
  EXPECT_THAT(CheckReportFolder("/nowhere/report.json").message(),
              ::testing::HasSubstr("the folder /nowhere: No such file"));
  EXPECT_THAT(CheckReportFolder(folder / "").message(), ::testing::HasSubstr("is a folder"));
  EXPECT_THAT(CheckReportFolder("/dev/null/report.json").message(),
              ::testing::HasSubstr("/dev/null is no folder"));
}

}  // namespace
}  // namespace muster::host
