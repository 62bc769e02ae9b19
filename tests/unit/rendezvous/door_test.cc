// Who is answered at a node's door, and who is not waited for.
#include "rendezvous/door.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "base/io/local_door.h"
#include "base/io/loop_thread.h"

namespace muster::rendezvous {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(1);

class DoorTest : public ::testing::Test {
 protected:
  ~DoorTest() override {
    thread_->Call([this] { door_.reset(); });
  }

  void Open(Door::Ways ways) {
    thread_->Call([&] {
      v1::Answer named;
      named.set_run_id("run");
      door_ = std::make_unique<Door>(thread_->loop(), host_, std::move(named), std::move(ways));
      door_->OnTick();
    });
  }

  static v1::JobView View(const std::string& run_id) {
    v1::JobView view;
    view.set_run_id(run_id);
    return view;
  }

  OwnedFd Knock() {
    absl::StatusOr<OwnedFd> fd = KnockAtDoor(absl::StrCat(kDoorPrefix, host_));
    EXPECT_TRUE(fd.ok()) << fd.status();
    return fd.ok() ? *std::move(fd) : OwnedFd();
  }
  static v1::Answer Await(const OwnedFd& fd) {
    IncomingFrame frame;
    EXPECT_TRUE(AwaitFrame(fd.get(), kPatience, &frame).ok());
    v1::Answer answer;
    EXPECT_TRUE(answer.ParseFromArray(frame.payload().data(), static_cast<int>(frame.payload().size())));
    return answer;
  }
  v1::Answer Ask(const v1::Question& question = {}) {
    const OwnedFd fd = Knock();
    EXPECT_TRUE(SendFrame(fd.get(), question).ok());
    return Await(fd);
  }

  static v1::Question AboutRank(int rank) {
    v1::Question question;
    question.set_kind(v1::Question::KIND_RANK);
    question.set_rank(rank);
    return question;
  }
  static v1::Question Ordering(const std::string& id) {
    v1::Question question;
    question.set_kind(v1::Question::KIND_ORDER);
    question.mutable_order()->set_id(id);
    return question;
  }
  static v1::Question UntilEnd() {
    v1::Question question;
    question.set_kind(v1::Question::KIND_END);
    return question;
  }
  // One who waits for the end, and whose question was heard.
  OwnedFd WaitForEnd() {
    OwnedFd waits = Knock();
    EXPECT_TRUE(SendFrame(waits.get(), UntilEnd()).ok());
    EXPECT_TRUE(Ask().has_view());
    return waits;
  }

  const std::string host_ = absl::StrCat("test-", getpid(), "-", reinterpret_cast<uintptr_t>(this));
  std::unique_ptr<LoopThread> thread_ = *LoopThread::Start();
  std::unique_ptr<Door> door_;
};

TEST_F(DoorTest, ACoordinatorHereAnswersAtOnce) {
  Open({.look = [](const v1::Question&) { return View("of here"); },
        .ask = [](const v1::Question&, const Door::Done&) { FAIL() << "nobody else is asked"; }});
  const v1::Answer answer = Ask();
  EXPECT_EQ(answer.run_id(), "run");
  EXPECT_EQ(answer.view().run_id(), "of here");
}

TEST_F(DoorTest, EachOrderIsPassedOnAndNoAnswerToOneIsKept) {
  int orders = 0;
  Open({.look =
            [&](const v1::Question& question) {
              EXPECT_EQ(question.order().id(), absl::StrCat("order ", ++orders));
              return View("here");
            },
        .ask = [](const v1::Question&, const Door::Done&) { FAIL() << "nobody else is asked"; }});
  for (const char* id : {"order 1", "order 2"}) EXPECT_TRUE(Ask(Ordering(id)).has_view());
  EXPECT_EQ(orders, 2);
}

TEST_F(DoorTest, AfterAnOrderNoEarlierAnswerIsGiven) {
  int looks = 0;
  Open({.look = [&](const v1::Question&) { return View(absl::StrCat("look ", ++looks)); },
        .ask = [](const v1::Question&, const Door::Done&) { FAIL() << "nobody else is asked"; }});
  EXPECT_EQ(Ask().view().run_id(), "look 1");
  EXPECT_EQ(Ask().view().run_id(), "look 1");
  EXPECT_EQ(Ask(Ordering("order 1")).view().run_id(), "look 2");
  EXPECT_EQ(Ask().view().run_id(), "look 3");
}

TEST_F(DoorTest, WhileAnOrderIsPassedOnAnotherOneIsToComeAgain) {
  std::vector<Door::Done> asked;
  Open({.look = [](const v1::Question&) { return std::nullopt; },
        .ask = [&](const v1::Question&, Door::Done done) { asked.push_back(std::move(done)); }});
  const OwnedFd first = Knock();
  ASSERT_TRUE(SendFrame(first.get(), Ordering("order 1")).ok());
  EXPECT_EQ(Ask(Ordering("order 2")).why_not(), "something else of this kind is being asked: ask again");
  thread_->Call([&] { asked.at(0)(View("there")); });
  EXPECT_EQ(Await(first).view().run_id(), "there");
}

TEST_F(DoorTest, OnlyTheNameNeedsNoCoordinator) {
  Open({.look = [](const v1::Question&) { return std::nullopt; },
        .ask = [](const v1::Question&, const Door::Done&) { FAIL() << "nobody is asked"; }});
  v1::Question question;
  question.set_kind(v1::Question::KIND_NAME);
  EXPECT_EQ(Ask(question).run_id(), "run");
  EXPECT_FALSE(Ask(question).has_view());
}

TEST_F(DoorTest, ACoordinatorElsewhereIsAskedOnceForAllWhoWait) {
  int asked = 0;
  Door::Done tell;
  Open({.look = [](const v1::Question&) { return std::nullopt; },
        .ask =
            [&](const v1::Question&, Door::Done done) {
              ++asked;
              tell = std::move(done);
            }});
  const OwnedFd first = Knock(), second = Knock();
  for (const OwnedFd* fd : {&first, &second}) ASSERT_TRUE(SendFrame(fd->get(), v1::Question()).ok());
  bool told = false;
  while (!told) {
    thread_->Call([&] {
      if (tell) tell(View("of elsewhere"));
      told = std::exchange(tell, nullptr) != nullptr;
    });
  }
  EXPECT_EQ(Await(first).view().run_id(), "of elsewhere");
  EXPECT_EQ(Await(second).view().run_id(), "of elsewhere");
  EXPECT_EQ(asked, 1);
}

TEST_F(DoorTest, WhyThereIsNoAnswerIsSaid) {
  Open({.look = [](const v1::Question&) { return std::nullopt; },
        .ask = [](const v1::Question&,
                  const Door::Done& done) { done(absl::UnavailableError("nobody listens")); }});
  const v1::Answer answer = Ask();
  EXPECT_FALSE(answer.has_view());
  EXPECT_EQ(answer.why_not(), "nobody listens");
}

// An answer with stacks is long, and one without them would not do.
TEST_F(DoorTest, QuestionsOfEachKindAreAskedApart) {
  Open({.look = [](const v1::Question&) { return std::nullopt; },
        .ask =
            [](const v1::Question& question, const Door::Done& done) {
              done(View(question.kind() == v1::Question::KIND_STACKS ? "with stacks" : "plain"));
            }});
  v1::Question stacks;
  stacks.set_kind(v1::Question::KIND_STACKS);
  for (int times = 0; times < 2; ++times) {
    EXPECT_EQ(Ask(stacks).view().run_id(), "with stacks");
    EXPECT_EQ(Ask().view().run_id(), "plain");
  }
}

TEST_F(DoorTest, AnAnswerAboutOneRankServesNoOther) {
  Open({.look = [](const v1::Question&) { return std::nullopt; },
        .ask = [](const v1::Question& question,
                  const Door::Done& done) { done(View(absl::StrCat("rank ", question.rank()))); }});
  for (const int rank : {3, 4, 3}) EXPECT_EQ(Ask(AboutRank(rank)).view().run_id(), absl::StrCat("rank ", rank));
}

TEST_F(DoorTest, OneRankIsAskedForAtATime) {
  int asked = 0;
  Open({.look = [](const v1::Question&) { return std::nullopt; },
        .ask = [&](const v1::Question&, const Door::Done&) { ++asked; }});
  const OwnedFd waits = Knock();
  ASSERT_TRUE(SendFrame(waits.get(), AboutRank(3)).ok());
  for (bool is_heard = false; !is_heard;) thread_->Call([&] { is_heard = asked == 1; });
  EXPECT_EQ(Ask(AboutRank(4)).why_not(), "something else of this kind is being asked: ask again");
}

TEST_F(DoorTest, WhoWaitsForTheEndIsToldHowTheJobEnds) {
  Open({.look = [](const v1::Question&) { return View("x"); },
        .ask = [](const v1::Question&, const Door::Done&) {}});
  const OwnedFd waits = WaitForEnd();
  v1::Exit exit;
  exit.mutable_verdict()->set_exit_code(7);
  exit.mutable_verdict()->set_reason("rank 3 exited with code 7");
  thread_->Call([&] { door_->OnEnd(exit); });
  const v1::Answer answer = Await(waits);
  EXPECT_FALSE(answer.has_view());
  EXPECT_EQ(answer.end().exit_code(), 7);
  EXPECT_EQ(answer.end().reason(), "rank 3 exited with code 7");
  EXPECT_EQ(Ask(UntilEnd()).end().exit_code(), 7) << "and one who comes later";
}

TEST_F(DoorTest, ThoseWhoWaitForTheEndKeepNobodyOut) {
  Open({.look = [](const v1::Question&) { return View("x"); },
        .ask = [](const v1::Question&, const Door::Done&) {}});
  std::vector<OwnedFd> waiting;
  for (size_t i = 0; i < kMaxWaiting; ++i) {
    waiting.push_back(Knock());
    ASSERT_TRUE(SendFrame(waiting.back().get(), UntilEnd()).ok());
    thread_->Call([] {});
  }
  EXPECT_EQ(Ask().view().run_id(), "x");
  EXPECT_EQ(Ask(UntilEnd()).why_not(), "too many wait for the end of this job here");
}

TEST_F(DoorTest, ANodeThatLeavesDoesNotKnowHowTheJobEnds) {
  Open({.look = [](const v1::Question&) { return View("x"); },
        .ask = [](const v1::Question&, const Door::Done&) {}});
  const OwnedFd waits = WaitForEnd();
  v1::Exit exit;
  exit.set_exit_code(75);
  exit.set_reason("SIGTERM");
  thread_->Call([&] { door_->OnEnd(exit); });
  const v1::Answer answer = Await(waits);
  EXPECT_FALSE(answer.has_end());
  EXPECT_EQ(answer.why_not(), "this node leaves the job: SIGTERM");
}

TEST_F(DoorTest, NonsenseIsNotAnswered) {
  Open({.look = [](const v1::Question&) { return View("x"); },
        .ask = [](const v1::Question&, const Door::Done&) {}});
  for (const std::string& said : {std::string("\xff\xff\xff\xff", 4), std::string("\x02\0\0\0\xff\xff", 6)}) {
    const OwnedFd fd = Knock();
    ASSERT_EQ(send(fd.get(), said.data(), said.size(), MSG_NOSIGNAL), static_cast<ssize_t>(said.size()));
    IncomingFrame frame;
    EXPECT_FALSE(AwaitFrame(fd.get(), kPatience, &frame).ok());
  }
}

TEST_F(DoorTest, WhoComesWhenTooManyAreHereIsTurnedAway) {
  Open({.look = [](const v1::Question&) { return View("x"); },
        .ask = [](const v1::Question&, const Door::Done&) {}});
  std::vector<OwnedFd> silent;
  while (silent.size() < kMaxVisitors) {
    silent.push_back(Knock());
    thread_->Call([] {});  // accepts it
  }
  while (true) {  // the last of them may not be accepted yet
    const OwnedFd fd = Knock();
    IncomingFrame frame;
    if (!SendFrame(fd.get(), v1::Question()).ok() || !AwaitFrame(fd.get(), kPatience, &frame).ok()) break;
  }
  silent.clear();
  while (true) {
    const OwnedFd fd = Knock();
    IncomingFrame frame;
    if (SendFrame(fd.get(), v1::Question()).ok() && AwaitFrame(fd.get(), kPatience, &frame).ok()) break;
  }
}

TEST(LocalDoors, AreFoundByTheirNames) {
  const std::string table =
      "Num       RefCount Protocol Flags    Type St Inode Path\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01   509 @muster/door/b\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01 32123 @muster/door/a\n"
      "0000000000000000: 00000003 00000000 00000000 0001 03 32124 @muster/door/a\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01 32125 /run/muster/door/c\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01 32126 @muster/health/x\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01 32127\n";
  EXPECT_EQ(DoorsIn(table, "muster/door/"), (std::vector<std::string>{"muster/door/a", "muster/door/b"}));
  EXPECT_TRUE(DoorsIn("", "muster/door/").empty());
}

TEST(LocalDoors, ANameIsOnesOnly) {
  const std::string name = absl::StrCat("muster/test/", getpid());
  EXPECT_TRUE(absl::IsUnavailable(KnockAtDoor(name).status()));
  absl::StatusOr<OwnedFd> first = ListenAtDoor(name);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(absl::IsAlreadyExists(ListenAtDoor(name).status()));
  EXPECT_TRUE(KnockAtDoor(name).ok());
  EXPECT_EQ(DoorsHere(name), std::vector<std::string>{name});
  first->Reset();
  EXPECT_TRUE(ListenAtDoor(name).ok()) << "it is free again";
}

}  // namespace
}  // namespace muster::rendezvous
