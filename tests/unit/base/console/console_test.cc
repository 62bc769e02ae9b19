// Output: whole lines, never glued, split or lost; and a writer that no reader can block.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <rapidcheck.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <functional>
#include <thread>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/console/line_assembler.h"
#include "base/console/live_rows.h"
#include "base/console/log.h"
#include "base/console/writer.h"
#include "base/io/byte_queue.h"
#include "base/io/event_loop.h"

namespace muster::host {
namespace {

const BootTime kStart = FromBootNanos(1'000'000'000);

std::string Assemble(const std::vector<std::string>& chunks) {
  LineAssembler assembler("[0] ");
  std::string out;
  for (const std::string& chunk : chunks) assembler.Feed(kStart, chunk, &out);
  assembler.End(&out);
  return out;
}

TEST(LineAssemblerTest, ALineIsShownOnceItIsWhole) {
  LineAssembler assembler("[0] ");
  std::string out;
  assembler.Feed(kStart, "half", &out);
  EXPECT_EQ(out, "");
  assembler.Feed(kStart, " and half\nnext", &out);
  EXPECT_EQ(out, "[0] half and half\n");
}

TEST(LineAssemblerTest, ALineWithALostEndIsMarked) {
  LineAssembler assembler("[0] ");
  std::string out;
  assembler.Break(&out);
  EXPECT_EQ(out, "");
  assembler.Feed(kStart, "lo", &out);
  assembler.Break(&out);
  assembler.Feed(kStart, "next\n", &out);
  EXPECT_EQ(out, "[0] lo [...]\n[0] next\n");
}

TEST(LineAssemblerTest, AnUnfinishedLineIsShownMarkedAfterASecond) {
  LineAssembler assembler("[0] ");
  std::string out;
  EXPECT_EQ(assembler.due(), absl::InfiniteFuture());
  assembler.Feed(kStart, "(Pdb) ", &out);
  EXPECT_EQ(assembler.due(), kStart + kUnfinishedAfter);
  assembler.OnTime(kStart + kUnfinishedAfter - absl::Nanoseconds(1), &out);
  EXPECT_EQ(out, "");
  assembler.OnTime(kStart + kUnfinishedAfter, &out);
  EXPECT_EQ(out, "[0] (Pdb)  [...]\n");
  assembler.Feed(kStart + absl::Seconds(5), "rest\n", &out);
  EXPECT_EQ(out, "[0] (Pdb)  [...]\n[0] [...] rest\n");
}

TEST(LineAssemblerTest, TheNewlineOfALineAlreadyShownAddsNothing) {
  LineAssembler assembler("");
  std::string out;
  assembler.Feed(kStart, "x", &out);
  assembler.OnTime(kStart + kUnfinishedAfter, &out);
  assembler.Feed(kStart + kUnfinishedAfter, "\ny\n", &out);
  EXPECT_EQ(out, "x [...]\ny\n");
}

TEST(LineAssemblerTest, RedrawsPassAndCrLfIsOneEnding) {
  EXPECT_EQ(Assemble({"10%\r20%\r", "30%\r", "\n"}), "[0] 10%\r[0] 20%\r[0] 30%\r\n");
}

TEST(LineAssemblerTest, ABarBelowOthersRedraws) {
  const std::string bytes = "\n\r10%\033[A\n\r20%\033[A\n\r30%\033[A\r100%\nend\n";
  EXPECT_EQ(Assemble({bytes}), "[0] \n[0] 10%\r[0] 20%\r[0] 30%\r[0] 100%\n[0] end\n");
  EXPECT_EQ(Assemble({"\n\r10%\033[A"}), "[0] \n[0] 10%\n");
  LineAssembler bar("[0] ", std::make_shared<RedrawLimit>());
  std::string out;
  bar.Feed(kStart, bytes, &out);
  EXPECT_EQ(out, "[0] \n[0] 10%\n[0] 100%\n[0] end\n");
}

TEST(LineAssemblerTest, OffATerminalAStateIsShownEachTenSeconds) {
  auto limit = std::make_shared<RedrawLimit>();
  LineAssembler bar("[0] ", limit), other("[0] ", limit);
  std::string out;
  bar.Feed(kStart, "\r10%\r20%\r30%\r", &out);
  other.Feed(kStart, "x\ry\rz", &out);
  EXPECT_EQ(out, "[0] 10%\n");
  bar.OnTime(kStart + kStateAfter, &out);
  other.OnTime(kStart + kStateAfter, &out);
  EXPECT_EQ(out, "[0] 10%\n");
  EXPECT_EQ(bar.due(), kStart + kRedrawEvery);
  bar.OnTime(kStart + kRedrawEvery, &out);
  EXPECT_EQ(out, "[0] 10%\n[0] 30%\n");
  bar.Feed(kStart + kRedrawEvery, "40%\n", &out);
  bar.End(&out);
  other.End(&out);
  EXPECT_EQ(out, "[0] 10%\n[0] 30%\n[0] 40%\n[0] z\n");
}

TEST(LineAssemblerTest, AnOpenStateIsShownSoonWithoutAMark) {
  LineAssembler bar("[0] ");  // as tqdm writes: the carriage return comes first
  std::string out;
  bar.Feed(kStart, "\r10%", &out);
  EXPECT_EQ(out, "");
  EXPECT_EQ(bar.due(), kStart + kStateAfter);
  bar.OnTime(kStart + kStateAfter, &out);
  EXPECT_EQ(out, "[0] 10%\r");
  bar.Feed(kStart + absl::Seconds(5), "\r20%", &out);
  bar.Feed(kStart + absl::Seconds(5), "\n", &out);
  EXPECT_EQ(out, "[0] 10%\r");
  bar.OnTime(kStart + absl::Seconds(5) + kStateAfter, &out);
  EXPECT_EQ(out, "[0] 10%\r[0] 20%\r");
  bar.OnTime(kStart + absl::Seconds(5) + kUnfinishedAfter, &out);  // nothing shows yet that the cursor returns
  EXPECT_EQ(out, "[0] 10%\r[0] 20%\r[0] 20%\n");
  EXPECT_EQ(bar.due(), absl::InfiniteFuture());
}

// As tqdm writes them. Nothing but the bars' last states becomes a line.
TEST(LineAssemblerTest, BarsBelowEachOtherAreOneStateOfSeveralRows) {
  LineAssembler bars("[0] ");
  std::string out;
  bars.Feed(kStart, "\repoch 1\n\rstep 1\033[A", &out);
  EXPECT_EQ(out, "");
  bars.Feed(kStart, "\n\rstep 2\033[A\n", &out);
  EXPECT_EQ(out, "[0] epoch 1\v[0] step 1\r[0] epoch 1\v[0] step 2\r");
  out.clear();
  bars.Feed(kStart, "\rstep 3\033[A\repoch 2\n\r      \033[A\r", &out);  // the inner one is cleared
  EXPECT_EQ(out, "[0] epoch 1\v[0] step 3\r");
  out.clear();
  bars.Feed(kStart, "epoch 3\nthe end\n", &out);
  EXPECT_EQ(out, "[0] epoch 2\r[0] epoch 3\n[0] the end\n");
  EXPECT_EQ(bars.due(), absl::InfiniteFuture());
}

TEST(LineAssemblerTest, AFinishedInnerBarIsALineAboveTheOuter) {
  LineAssembler bars("[0] ");
  std::string out;
  bars.Feed(kStart, "\repoch 1\n\rstep 9\033[A\rstep 9\n\repoch 2\n\rstep 1\033[A\r\r", &out);
  EXPECT_EQ(out, "[0] epoch 1\v[0] step 9\r[0] step 9\n[0] epoch 2\v[0] step 1\r");
}

// tqdm.write() clears all bars, writes, and draws them again.
TEST(LineAssemblerTest, ALineBetweenBarsBelowEachOtherIsALine) {
  LineAssembler bars("[0] ");
  std::string out;
  bars.Feed(kStart, "\rA\n\rB\033[A\r \r\n\r \r\033[Asaid\n\rA\n\rB\033[A\r\r", &out);
  EXPECT_TRUE(out.ends_with("[0] said\n[0] A\v[0] B\r")) << out;
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1) << out;
}

TEST(LineAssemblerTest, OffATerminalStackedBarsAreShownTogether) {
  auto limit = std::make_shared<RedrawLimit>();
  LineAssembler bars("[0] ", limit);
  std::string out;
  for (const char step : {'1', '2', '3'}) {
    bars.Feed(kStart, std::string("\rA\n\rB") + step + "\033[A\r", &out);
  }
  EXPECT_EQ(out, "[0] A\n[0] B1\n");
  bars.OnTime(kStart + kRedrawEvery, &out);
  EXPECT_EQ(out, "[0] A\n[0] B1\n[0] B3\n");  // A has not changed
  bars.End(&out);
  EXPECT_EQ(out, "[0] A\n[0] B1\n[0] B3\n");
}

TEST(LineAssemblerTest, ANewlineAfterAShownStateLeavesItAsTheLine) {
  LineAssembler bar("[0] ");
  std::string out;
  bar.Feed(kStart, "99%\r", &out);
  bar.OnTime(kStart + kStateAfter, &out);
  bar.Feed(kStart + absl::Seconds(1), "\nnext\n", &out);
  EXPECT_EQ(out, "[0] 99%\r[0] 99%\n[0] next\n");
}

TEST(LiveRowsTest, EachSourceHasARowAndLinesGoAbove) {
  LiveRows rows;
  std::string out;
  rows.Take(1, "a 10%\r", &out);
  rows.Take(2, "b 10%\r", &out);
  EXPECT_EQ(out, "");
  rows.Draw(80, 24, &out);
  EXPECT_EQ(out, "a 10%\r\nb 10%\r");
  out.clear();
  rows.Draw(80, 24, &out);
  EXPECT_EQ(out, "");
  rows.Take(3, "a line\n", &out);
  EXPECT_EQ(out, "\033[1A\r\033[Ja line\n");
  out.clear();
  rows.Take(1, "a 20%\ra 100%\n", &out);
  EXPECT_EQ(out, "a 100%\r\n");
  out.clear();
  rows.Draw(80, 24, &out);
  EXPECT_EQ(out, "b 10%\r");
}

TEST(LiveRowsTest, AStateOfSeveralRowsHasThemBelowEachOther) {
  LiveRows rows;
  std::string out;
  rows.Take(1, "a\vb\r", &out);
  rows.Take(2, "c\r", &out);
  rows.Draw(80, 24, &out);
  EXPECT_EQ(out, "a\r\nb\r\nc\r");
  out.clear();
  rows.Take(1, "a\r", &out);
  rows.Draw(80, 24, &out);
  EXPECT_EQ(out, "\033[2A\r\033[Ja\r\nc\r");
  rows.Take(1, "a\vb\vc\vd\r", &out);
  out.clear();
  rows.Draw(80, 4, &out);
  EXPECT_EQ(out, "\033[1A\r\033[Ja\r\nb\r\nc\r");
}

TEST(LiveRowsTest, ColoursTakeNoColumnsAndEndWithTheRow) {
  LiveRows rows;
  std::string out;
  rows.Take(1, "\033[31mred\033[0m and more\r", &out);
  rows.Draw(8, 10, &out);
  EXPECT_EQ(out, "\033[31mred\033[0m and\033[0m\r");
}

TEST(LiveRowsTest, RowsAreCutToTheTerminal) {
  LiveRows rows;
  std::string out;
  rows.Take(1, "\xe2\x96\x88\xe2\x96\x88\xe2\x96\x88\r", &out);
  for (int source = 2; source < 9; ++source) rows.Take(source, "12345\r", &out);
  rows.Draw(3, 4, &out);
  EXPECT_EQ(out, "\xe2\x96\x88\xe2\x96\x88\r\n12\r\n12\r");
}

TEST(ByteQueueTest, BytesArePoppedInOrder) {
  EXPECT_TRUE(rc::check([](const std::vector<std::string>& pushed) {
    ByteQueue queue;
    std::string all, popped;
    for (const std::string& bytes : pushed) {
      queue.Push(bytes);
      all += bytes;
      const size_t count = *rc::gen::inRange<size_t>(0, queue.size() + 1);
      popped += queue.front(count);
      queue.Pop(count);
    }
    popped += queue.front(queue.size());
    RC_ASSERT(popped == all);
  }));
}

TEST(LineAssemblerTest, AnEndlessLineIsShownInParts) {
  const std::string out = Assemble({std::string(kMaxLineBytes + 10, 'x') + "\n"});
  EXPECT_EQ(out.size(), kMaxLineBytes + 10 + 2 * 4 + kUnfinishedMark.size() + kContinuedMark.size() + 2);
}

TEST(LineAssemblerTest, OutputDoesNotDependOnHowBytesAreCut) {
  EXPECT_TRUE(rc::check([] {
    const auto tokens = *rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
        "a", "b", "\n", "\r", "\xc3", std::string(1, '\0'), " ", "\033[A", "\n\r", "\033"));
    const std::string text = absl::StrJoin(tokens, "");
    std::vector<std::string> chunks;
    for (size_t at = 0; at < text.size();) {
      const size_t size = *rc::gen::inRange<size_t>(1, 6);
      chunks.push_back(text.substr(at, size));
      at += size;
    }
    RC_ASSERT(Assemble(chunks) == Assemble({text}));
  }));
}

// A deadline that stays in the past would make the writer's thread spin.
TEST(LineAssemblerTest, DeadlinesAreMet) {
  EXPECT_TRUE(rc::check([](bool passes) {
    const auto tokens = *rc::gen::container<std::vector<std::string>>(
        rc::gen::element<std::string>("a", "\n", "\r", " ", "\033[A", "\n\ra\033[A"));
    LineAssembler assembler("", passes ? nullptr : std::make_shared<RedrawLimit>());
    std::string out;
    BootTime now = kStart;
    for (const std::string& token : tokens) {
      assembler.Feed(now, token, &out);
      now += absl::Milliseconds(*rc::gen::inRange(0, 2000));
      assembler.OnTime(now, &out);
      RC_ASSERT(assembler.due() > now);
    }
    while (assembler.due() < absl::InfiniteFuture()) {
      now = assembler.due();
      assembler.OnTime(now, &out);
      RC_ASSERT(assembler.due() > now);
    }
  }));
}

TEST(LineAssemblerTest, NothingIsLostAndEveryLineHasItsPrefix) {
  EXPECT_TRUE(rc::check([](const std::vector<std::string>& raw) {
    std::string text, wanted;
    for (std::string line : raw) {
      for (char& c : line) c = c == '\n' || c == '\r' ? '.' : c;
      text += line + "\n";
      wanted += "[0] " + line + "\n";
    }
    RC_ASSERT(Assemble({text}) == wanted);
  }));
}

TEST(LineAssemblerTest, APrefixNamesItsRanks) {
  EXPECT_EQ(
      ExpandPrefix("[${node_rank}:${local_rank} ${rank}] $x ${", {.local_rank = 1, .rank = 5, .node_rank = 2}),
      "[2:1 5] $x ${");
  const PrefixFields fields = {"trainer", 0, 3, 0, "host9"};
  EXPECT_EQ(ExpandPrefix("[$role_name$local_rank]$$${hostname}$rankly ${rank", fields),
            "[trainer0]$host9$rankly ${rank");
}

struct Pipe {
  Pipe() {
    if (pipe2(fds, O_CLOEXEC) != 0) std::abort();
  }
  ~Pipe() {
    for (int fd : fds) {
      if (fd >= 0) close(fd);
    }
  }
  void CloseIn() {
    close(fds[1]);
    fds[1] = -1;
  }
  std::string ReadAvailable(int wait_ms) {
    std::string all;
    char bytes[65536];
    pollfd ready{fds[0], POLLIN, 0};
    while (poll(&ready, 1, wait_ms) > 0) {
      const ssize_t got = read(fds[0], bytes, sizeof(bytes));
      if (got <= 0) break;
      all.append(bytes, static_cast<size_t>(got));
    }
    return all;
  }
  int fds[2];
};

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
}  // namespace muster::host
