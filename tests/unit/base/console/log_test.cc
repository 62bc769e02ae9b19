// Lines of our own log, as text and as JSON.
#include "base/console/log.h"

#include <gtest/gtest.h>

#include "base/console/writer.h"
#include "tests/unit/base/console/pipe.h"

namespace muster {
namespace {

TEST(LogTest, ALineNamesItsPartAndCarriesNoColourOffATerminal) {
  Pipe pipe;
  {
    Writer writer;
    InitLog({.level = Severity::kInfo, .writer = &writer, .fd = pipe.fds[1]});
    Log(Severity::kDebug, "host", "not shown");
    Log(Severity::kError, "agent", "{} is no format");
    EXPECT_TRUE(writer.Flush(absl::Seconds(60)));
    InitLog({});
  }
  const std::string all = pipe.ReadAvailable(0);
  EXPECT_NE(all.find(" muster: [agent] error: {} is no format\n"), std::string::npos) << all;
  EXPECT_EQ(all.find("not shown"), std::string::npos);
  EXPECT_EQ(all.find('\033'), std::string::npos);
}

TEST(LogTest, AnyTextIsOneLine) {
  Pipe pipe;
  {
    Writer writer;
    InitLog({.writer = &writer, .fd = pipe.fds[1]});
    Log(Severity::kWarning, "coordinator",
        "n\xc3\xb6"
        "de\n2026-11-21 muster: [host] exit code 0\r\033[2K is refused");
    EXPECT_TRUE(writer.Flush(absl::Seconds(60)));
    InitLog({});
  }
  const std::string all = pipe.ReadAvailable(0);
  EXPECT_NE(all.find("[coordinator] warning: n\xc3\xb6"
                     "de\\n2026-11-21 muster: [host] exit code 0\\x0d\\x1b[2K is refused\n"),
            std::string::npos)
      << all;
  EXPECT_EQ(all.find('\n'), all.size() - 1);
}

TEST(LogTest, LinesBelowAWarningMayGoElsewhere) {
  Pipe loud, quiet;
  {
    Writer writer;
    InitLog({.writer = &writer, .fd = loud.fds[1], .quiet_fd = quiet.fds[1]});
    Log(Severity::kInfo, "host", "all is well");
    Log(Severity::kWarning, "host", "look here");
    Log(Severity::kError, "host", "it is over");
    EXPECT_TRUE(writer.Flush(absl::Seconds(60)));
    InitLog({});
  }
  const std::string all = loud.ReadAvailable(0);
  EXPECT_EQ(all.find("all is well"), std::string::npos);
  EXPECT_NE(all.find("look here"), std::string::npos);
  EXPECT_NE(all.find("it is over"), std::string::npos);
  EXPECT_NE(quiet.ReadAvailable(0).find("all is well"), std::string::npos);
}

TEST(LogTest, AJsonLineIsOneObjectForAnyText) {
  const absl::Time time = absl::FromUnixMillis(1'763'698'439'123);
  EXPECT_EQ(FormatJson({.severity = Severity::kWarning,
                        .time = time,
                        .part = "host",
                        .text = "a \"b\"\nc",
                        .subject = {.event = events::kWorkerFailed, .rank = 8, .node_rank = 2},
                        .run_id = "run",
                        .host = "machine",
                        .context = {.node = 1, .round = 3}}),
            R"({"severity":"WARNING","time":"2025-11-21T04:13:59.123Z","message":"a \"b\"\nc",)"
            R"("event":"worker_failed","part":"host","run_id":"run","host":"machine","node":1,"round":3,)"
            R"("node_rank":2,"rank":8})");
  EXPECT_EQ(FormatJson({.time = time, .part = "agent", .text = "\xff"}).find('\xff'), std::string::npos);
}

TEST(LogTest, AJsonLineNamesARankOnlyIfItConcernsOne) {
  const std::string line =
      FormatJson({.time = absl::UnixEpoch(), .part = "host", .text = "t", .context = {.node = 1}});
  EXPECT_EQ(line, R"({"severity":"INFO","time":"1970-01-01T00:00:00.000Z","message":"t","part":"host","node":1})");
}

TEST(LogTest, AJsonLinesOwnRoundPrecedesThatOfItsProcess) {
  const std::string line = FormatJson({.time = absl::UnixEpoch(),
                                       .part = "coordinator",
                                       .text = "t",
                                       .subject = {.event = events::kRoundStarted, .round = 2},
                                       .context = {.round = 1}});
  EXPECT_NE(line.find(R"("round":2)"), std::string::npos) << line;
}

TEST(LogTest, AJsonLineHasItsNodeAndNoPrefix) {
  Pipe pipe;
  {
    Writer writer;
    InitLog(
        {.writer = &writer, .fd = pipe.fds[1], .quiet_fd = pipe.fds[1], .json = true, .run_id = "r", .host = "h"});
    SetLogContext({.node = 2, .round = 1});
    EXPECT_TRUE(LogsJson());
    Log(Severity::kError, "host", "two\nlines");
    EXPECT_TRUE(writer.Flush(absl::Seconds(60)));
    InitLog({});
    SetLogContext({});
  }
  const std::string all = pipe.ReadAvailable(0);
  EXPECT_EQ(all.rfind(R"({"severity":"ERROR","time":")", 0), 0u) << all;
  EXPECT_NE(all.find(R"("message":"two\nlines","part":"host","run_id":"r","host":"h","node":2,"round":1})"),
            std::string::npos);
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 1);
}

}  // namespace
}  // namespace muster
