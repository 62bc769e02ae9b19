// A writer that no reader can block, and that counts what it had to drop.
#include "base/console/writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <climits>
#include <functional>
#include <thread>

#include "absl/time/clock.h"
#include "base/console/line_assembler.h"
#include "base/console/log.h"
#include "base/io/event_loop.h"
#include "tests/unit/base/console/pipe.h"

namespace muster {
namespace {

TEST(WriterTest, AStoppedReaderNeverBlocksTheCaller) {
  Pipe pipe;
  const std::string line(1023, 'x');
  int kept = 0, dropped = 0;
  std::string all;
  {
    Writer writer;
    while (dropped < 5) (writer.Write(pipe.fds[1], line + "\n") ? kept : dropped)++;
    EXPECT_FALSE(writer.Flush(absl::ZeroDuration()));
    std::thread reader([&] { all = pipe.ReadAvailable(60'000); });
    EXPECT_TRUE(writer.Flush(absl::Seconds(60)));
    // The note about dropped bytes appears once there is room, possibly after that moment.
    writer.Write(pipe.fds[1], "the end\n");
    EXPECT_TRUE(writer.Flush(absl::Seconds(60)));
    pipe.CloseIn();
    reader.join();
  }
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), kept + 2);
  EXPECT_NE(all.find("muster: 5 lines of muster's log were dropped"), std::string::npos);
}

TEST(WriterTest, AClosedReaderDoesNoHarm) {
  signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  close(pipe.fds[0]);
  pipe.fds[0] = -1;
  Writer writer;
  writer.Write(pipe.fds[1], "lost\n");
  EXPECT_TRUE(writer.Flush(absl::Seconds(60)));
}

// A descriptor whose disk is full, until there is room.
class Disk {
 public:
  Disk() : file_(std::tmpfile()), fd_(open("/dev/full", O_WRONLY | O_CLOEXEC)) {
    if (file_ == nullptr || fd_ < 0) std::abort();
  }
  ~Disk() {
    std::fclose(file_);
    close(fd_);
  }
  int fd() const { return fd_; }
  void MakeRoom() { dup3(fileno(file_), fd_, O_CLOEXEC); }
  std::string Content() const {
    std::string all(lseek(fileno(file_), 0, SEEK_END), '\0');
    EXPECT_EQ(pread(fileno(file_), all.data(), all.size(), 0), static_cast<ssize_t>(all.size()));
    return all;
  }

 private:
  std::FILE* file_;
  int fd_;
};

// Redirects standard error into a pipe for its lifetime.
class CapturedErrors {
 public:
  CapturedErrors() : before_(dup(STDERR_FILENO)) { dup2(pipe_.fds[1], STDERR_FILENO); }
  ~CapturedErrors() { Restore(); }
  std::string Read() {
    Restore();
    pipe_.CloseIn();
    return pipe_.ReadAvailable(0);
  }

 private:
  void Restore() {
    if (before_ < 0) return;
    dup2(before_, STDERR_FILENO);
    close(std::exchange(before_, -1));
  }
  Pipe pipe_;
  int before_;
};

constexpr char kNoSpace[] = " were lost: No space left on device\n";

bool Waited(const std::function<bool()>& condition) {
  const BootTime limit = EventLoop::Now() + absl::Seconds(60);
  while (!condition()) {
    if (EventLoop::Now() > limit) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return true;
}

// Returns when the disk has refused the line: lower descriptors are served first.
void WriteInVain(Writer* writer, const Disk& disk, const std::string& line) {
  Pipe later;
  ASSERT_LT(disk.fd(), later.fds[1]);
  writer->Write(disk.fd(), line);
  writer->Write(later.fds[1], "served\n");
  EXPECT_TRUE(Waited([&] { return later.ReadAvailable(0) == "served\n"; }));
}

TEST(WriterTest, QueuedBytesAreWrittenOnceADiskHasRoom) {
  Disk disk;
  Writer writer;
  WriteInVain(&writer, disk, "waits\n");
  disk.MakeRoom();
  EXPECT_TRUE(Waited([&] { return disk.Content() == "waits\n"; })) << disk.Content();
}

TEST(WriterTest, LossesOnAFullDiskAreReportedOnce) {
  Disk disk;
  Writer writer;
  const std::string line(1023, 'x');
  constexpr size_t kLines = 2000;  // more than a writer keeps
  WriteInVain(&writer, disk, line + "\n");
  for (size_t i = 1; i < kLines; ++i) EXPECT_TRUE(writer.Write(disk.fd(), line + "\n"));
  disk.MakeRoom();
  writer.Write(disk.fd(), "the end\n");
  ASSERT_TRUE(Waited([&] { return disk.Content().ends_with("the end\n"); }));
  const std::string all = disk.Content();
  const size_t kept = static_cast<size_t>(std::count(all.begin(), all.end(), 'x')) / line.size();
  EXPECT_LE(kept * 1024, kKeptWhileFailing);
  EXPECT_EQ(all.find("muster: " + std::to_string((kLines - kept) * 1024) + " bytes of output" + kNoSpace), 0u)
      << all;
  EXPECT_EQ(all.find("muster:", 1), std::string::npos);
}

TEST(WriterTest, AFullDiskNeverStopsAWorker) {
  Disk disk;
  Pipe worker;
  Writer writer;
  writer.AdoptPipe(std::exchange(worker.fds[0], -1), disk.fd(), "");
  const std::string chunk(65535, 'x');
  for (size_t i = 0; i < 4 * kPausePipesBytes / chunk.size();
       ++i) {  // each fills the pipe, so the next one needs a reader
    const std::string line = chunk + "\n";
    ASSERT_EQ(write(worker.fds[1], line.data(), line.size()), static_cast<ssize_t>(line.size()));
  }
  worker.CloseIn();
  const CapturedErrors quiet;
  EXPECT_TRUE(writer.Flush(absl::Seconds(60)));
}

TEST(WriterTest, FinalLossesAreReportedOnStandardError) {
  Disk disk;
  CapturedErrors errors;
  {
    Writer writer;
    writer.Write(disk.fd(), "12345678\n");
    EXPECT_TRUE(writer.Flush(absl::Seconds(60)));
  }
  const std::string said = errors.Read();
  EXPECT_EQ(said, "muster: 9 bytes of output for descriptor " + std::to_string(disk.fd()) + kNoSpace);
}

TEST(WriterTest, AFullStandardErrorStillEndsAFlush) {
  const int before = dup(STDERR_FILENO);
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  dup2(full, STDERR_FILENO);
  {
    Writer writer;
    writer.Write(STDERR_FILENO, "lost\n");
    EXPECT_TRUE(writer.Flush(absl::Seconds(60)));
    EXPECT_TRUE(writer.Flush(absl::Seconds(60)));
  }
  dup2(before, STDERR_FILENO);
  close(before);
  close(full);
}

TEST(WriterTest, LinesOfManyWorkersStayWholeAndInOrder) {
  constexpr int kWorkers = 4, kLines = 5000;
  Pipe out;
  std::string all;
  {
    Writer writer;
    std::vector<std::thread> workers;
    for (int w = 0; w < kWorkers; ++w) {
      Pipe pipe;
      writer.AdoptPipe(std::exchange(pipe.fds[0], -1), out.fds[1], std::to_string(w) + "|");
      workers.emplace_back([fd = std::exchange(pipe.fds[1], -1)] {
        std::string text;
        for (int i = 0; i < kLines; ++i) text += std::to_string(i) + "\n";
        for (size_t at = 0; at < text.size(); at += 777) {
          const std::string part = text.substr(at, 777);
          EXPECT_EQ(write(fd, part.data(), part.size()), static_cast<ssize_t>(part.size()));
        }
        close(fd);
      });
    }
    std::thread reader([&] { all = out.ReadAvailable(60'000); });
    for (std::thread& worker : workers) worker.join();
    EXPECT_TRUE(writer.Flush(absl::Seconds(60)));
    out.CloseIn();
    reader.join();
  }
  int next[kWorkers] = {};
  size_t at = 0;
  for (size_t end; (end = all.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string line = all.substr(at, end - at);
    const int worker = line[0] - '0';
    ASSERT_TRUE(worker >= 0 && worker < kWorkers) << line;
    ASSERT_EQ(line, std::to_string(worker) + "|" + std::to_string(next[worker]++));
  }
  EXPECT_EQ(at, all.size());
  for (int count : next) EXPECT_EQ(count, kLines);
}

// Two ranks, whose lines are grouped.
class GroupedPipes {
 public:
  GroupedPipes(Writer* writer, int out_fd) {
    writer->GroupLines(out_fd, 2);
    for (const int rank : {0, 1})
      writer->AdoptPipe(std::exchange(pipes_[rank].fds[0], -1), out_fd, std::to_string(rank) + "|", nullptr, {},
                        rank);
  }
  void Say(int rank, const std::string& text) {
    EXPECT_EQ(write(pipes_[rank].fds[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void End(int rank) { pipes_[rank].CloseIn(); }

 private:
  Pipe pipes_[2];
};

TEST(WriterTest, ALineOfAllRanksIsShownOnce) {
  Pipe out;
  Writer writer;
  GroupedPipes ranks(&writer, out.fds[1]);
  ranks.Say(0, "same\n");
  ranks.Say(1, "same\n");
  std::string all;
  EXPECT_TRUE(Waited([&] { return !(all += out.ReadAvailable(0)).empty(); }));
  EXPECT_EQ(all, "[0-1] same\n");
}

TEST(WriterTest, ALineThatWaitsIsShownAtTheEndOfItsRankAndOfTheWriter) {
  Pipe out;
  Writer writer;
  GroupedPipes ranks(&writer, out.fds[1]);
  ranks.Say(0, "first\n");
  ranks.End(0);
  std::string all;
  EXPECT_TRUE(Waited([&] { return !(all += out.ReadAvailable(0)).empty(); }));
  ranks.Say(1, "last\n");
  ranks.End(1);
  EXPECT_TRUE(writer.Flush(absl::Seconds(60)));
  EXPECT_EQ(all + out.ReadAvailable(0), "0|first\n1|last\n");
}

TEST(WriterTest, ARawPipeIsPassedOnAtOnceAndAsItIs) {
  Pipe out, source;
  Writer writer;
  PipeTaps taps{.tail = std::make_shared<OutputTail>(), .bytes = std::make_shared<std::atomic<uint64_t>>(0)};
  writer.AdoptRawPipe(std::exchange(source.fds[0], -1), out.fds[1], taps);
  std::string all;
  for (const std::string part : {"no end", "\rredrawn\r", "\033[A up", "\xff", "\n"}) {
    ASSERT_EQ(write(source.fds[1], part.data(), part.size()), static_cast<ssize_t>(part.size()));
    const std::string expected = all + part;
    ASSERT_TRUE(Waited([&] {
      all += out.ReadAvailable(0);
      return all == expected;
    })) << all;
  }
  EXPECT_EQ(*taps.bytes, all.size());
  source.CloseIn();
  EXPECT_TRUE(Waited([&] { return taps.tail->ended(); }));
  EXPECT_TRUE(writer.Flush(absl::Seconds(60)));
  EXPECT_EQ(out.ReadAvailable(0), "");
}

TEST(WriterTest, DroppableSourcesAreReadDespiteABlockedOutput) {
  constexpr size_t kMost = 2 * kPausePipesBytes, kPrefix = 3, kSlack = 512 * 1024;
  Pipe out, source;
  Writer writer;
  writer.AdoptBoundedPipe(kMost, std::exchange(source.fds[0], -1), out.fds[1], "p: ", nullptr);
  const std::string line = "y\n";
  std::string chunk;
  while (chunk.size() < PIPE_BUF) chunk += line;
  constexpr size_t kChunks = 640;  // more than all pipes and queues together hold
  fcntl(source.fds[1], F_SETFL, O_NONBLOCK);
  for (size_t i = 0; i < kChunks; ++i) {
    ASSERT_TRUE(Waited([&] { return write(source.fds[1], chunk.data(), chunk.size()) > 0; })) << i;
  }
  source.CloseIn();
  std::string all;
  ASSERT_TRUE(Waited([&] {
    all += out.ReadAvailable(0);
    return all.ends_with("left out)\n");
  }));
  EXPECT_LT(all.size(), kMost + kSlack);
  const size_t shown = static_cast<size_t>(std::count(all.begin(), all.end(), 'y')) - 1;  // "bytes" has one, too
  EXPECT_GT(shown * (line.size() + kPrefix), kMost / 2);
  const size_t left_out = kChunks * chunk.size() - shown * line.size();
  EXPECT_TRUE(all.ends_with("\np: ... (" + std::to_string(left_out) + " bytes of output were left out)\n"))
      << all.substr(all.size() - 100);
}

TEST(WriterTest, LinesOfOthersAreNeverGluedToARedraw) {
  Pipe out, bar;
  Writer writer;
  writer.AdoptPipe(std::exchange(bar.fds[0], -1), out.fds[1], "0|");
  ASSERT_EQ(write(bar.fds[1], "10%\r20%", 7), 7);
  std::string all;
  while (all.find('\r') == std::string::npos) {
    const std::string more = out.ReadAvailable(100);
    all += more;
  }
  writer.Write(out.fds[1], "muster: a line\n");
  bar.CloseIn();
  EXPECT_TRUE(writer.Flush(absl::Seconds(60)));
  all += out.ReadAvailable(0);
  EXPECT_EQ(all.find("10%\r\nmuster: a line\n") != std::string::npos ||
                all.find("20%\r\nmuster: a line\n") != std::string::npos ||
                all.find("20%\nmuster: a line\n") != std::string::npos ||
                all.find("20% [...]\nmuster: a line\n") != std::string::npos,
            true)
      << all;
}

TEST(WriterTest, RedrawsStayTogetherForACapableReader) {
  Pipe out, one, other;
  Writer writer;
  writer.LetRedrawsPass(out.fds[1]);
  EXPECT_TRUE(writer.feed().Redraws(out.fds[1]));
  writer.AdoptPipe(std::exchange(one.fds[0], -1), out.fds[1], "0|");
  writer.AdoptPipe(std::exchange(other.fds[0], -1), out.fds[1], "1|");
  std::string all;
  for (const char state : {'1', '2', '3'}) {
    for (const auto& [pipe, prefix] : {std::pair(&one, "0|"), std::pair(&other, "1|")}) {
      const std::string text = std::string("\r") + state;
      ASSERT_EQ(write(pipe->fds[1], text.data(), text.size()), 2);
      while (all.find(prefix + text.substr(1) + "\r") == std::string::npos) all += out.ReadAvailable(100);
    }
  }
  EXPECT_EQ(all, "0|1\r1|1\r0|2\r1|2\r0|3\r1|3\r");
  one.CloseIn();
  other.CloseIn();
  EXPECT_TRUE(writer.Flush(absl::Seconds(60)));
}

}  // namespace
}  // namespace muster
