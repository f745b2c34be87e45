#include "engine/observe/verdict.h"

#include <gtest/gtest.h>

namespace hvdlite::engine {
namespace {

StalledOperation Operation(const std::string& name, std::vector<int> asked,
                           std::vector<int> missing, uint64_t rounds = 0) {
  StalledOperation operation;
  operation.shown = "allreduce '" + name + "'";
  operation.plain = "'" + name + "'";
  operation.age = 12 * kSecond;
  operation.rounds = rounds;
  operation.asked = std::move(asked);
  operation.missing = std::move(missing);
  return operation;
}

StalledOperation Barrier(std::vector<int> asked, std::vector<int> missing, uint64_t rounds = 0) {
  StalledOperation operation = Operation("", std::move(asked), std::move(missing), rounds);
  operation.shown = operation.plain = "barrier";
  return operation;
}

// The program is busy.
Whereabouts At(const std::string& place, Nanos idle = 14 * kSecond) {
  return {.place = place, .idle = idle};
}
// The program waits in a call of hvdlite.
Whereabouts WaitsAt(const std::string& place) {
  return {.place = place, .in_wait = true, .idle = 12 * kSecond};
}
Whereabouts HoldsGil(Nanos unanswered) {
  return {.place = "", .idle = 20 * kSecond, .unanswered = unanswered};
}

struct Fault {
  const char* name;
  StallFacts facts;
  const char* verdict;
};

const Whereabouts kStep = WaitsAt("train.py:61 (step)");

const Fault kFaults[] = {
    {"a rank evaluates",
     {{Operation("layer3", {0, 1, 3}, {2})},
      {{0, kStep}, {1, kStep}, {2, At("train.py:88 (evaluate)")}, {3, kStep}},
      {}},
     "rank 2 has not asked for allreduce 'layer3' for 12 s: it is in train.py:88 (evaluate) and "
     "has submitted nothing for 14 s; ranks 0, 1 and 3 wait in train.py:61 (step)"},
    {"a rank waits for a worker of its DataLoader",
     {{Operation("layer3", {0}, {1})},
      {{0, kStep},
       {1, At("train.py:40 (train), waiting for a worker of the DataLoader in "
              "torch/utils/data/dataloader.py:1133 (_try_get_data)")}},
      {}},
     "rank 1 has not asked for allreduce 'layer3' for 12 s: it is in train.py:40 (train), "
     "waiting for a worker of the DataLoader in torch/utils/data/dataloader.py:1133 "
     "(_try_get_data) and has submitted nothing for 14 s; rank 0 waits in train.py:61 (step)"},
    {"only rank 0 calls a collective",
     {{Operation("metric", {0}, {1, 2, 3})},
      {{0, kStep}, {1, At("train.py:30")}, {2, At("train.py:30", kSecond)}, {3, At("train.py:30")}},
      {}},
     "ranks 1-3 have not asked for allreduce 'metric' for 12 s: they are in train.py:30 and have "
     "submitted nothing for 1 s; rank 0 waits in train.py:61 (step)"},
    {"missing ranks are in different places",
     {{Operation("a", {0}, {1, 2})},
      {{0, kStep}, {1, At("train.py:30")}, {2, At("data.py:7 (load)")}},
      {}},
     "ranks 1 and 2 have not asked for allreduce 'a' for 12 s: rank 1 is in train.py:30 and has "
     "submitted nothing for 14 s; rank 2 is in data.py:7 (load) and has submitted nothing for 14 "
     "s; rank 0 waits in train.py:61 (step)"},
    {"many ranks are in as many places",
     {{Operation("a", {0}, {1, 2, 3, 4})},
      {{0, kStep}, {1, At("a.py:1")}, {2, At("b.py:2")}, {3, At("c.py:3")}, {4, At("d.py:4")}},
      {}},
     "ranks 1-4 have not asked for allreduce 'a' for 12 s: rank 1 is in a.py:1 and has submitted "
     "nothing for 14 s; rank 2 is in b.py:2 and has submitted nothing for 14 s; rank 3 is in "
     "c.py:3 and has submitted nothing for 14 s; ...; rank 0 waits in train.py:61 (step)"},
    {"the same operations in another order",
     {{Operation("layer3", {0, 2}, {1}, 9), Operation("layer4", {1}, {0, 2}, 9)},
      {{0, WaitsAt("train.py:22")}, {1, WaitsAt("train.py:20")}, {2, WaitsAt("train.py:22")}},
      {}},
     "rank 1 has not asked for allreduce 'layer3' for 12 s: it asks for allreduce 'layer4' "
     "instead, in train.py:20; ranks 0 and 2 wait in train.py:22. The ranks ask for the same "
     "operations in another order"},
    {"another order or another branch, in the first step",
     {{Operation("layer3", {0, 2}, {1}), Operation("layer4", {1}, {0, 2})},
      {{0, WaitsAt("train.py:22")}, {1, WaitsAt("train.py:20")}, {2, WaitsAt("train.py:22")}},
      {}},
     "rank 1 has not asked for allreduce 'layer3' for 12 s: it asks for allreduce 'layer4' "
     "instead, in train.py:20; ranks 0 and 2 wait in train.py:22. The ranks ask in another order, "
     "or one of them takes another branch"},
    {"several gradients in another order",
     {{Operation("a", {0}, {1}, 2), Operation("b", {1}, {0}, 2), Operation("c", {1}, {0}, 2),
       Operation("d", {1}, {0}, 2), Operation("e", {1}, {0}, 2)},
      {{0, kStep}, {1, kStep}},
      {}},
     "rank 1 has not asked for allreduce 'a' for 12 s: it asks for allreduce 'b', allreduce 'c', "
     "allreduce 'd', ... instead, in train.py:61 (step); rank 0 waits in train.py:61 (step). The "
     "ranks ask for the same operations in another order"},
    {"one rank has fewer steps and waits behind its loop",
     {{Operation("grad", {0, 1, 2}, {3}, 117), Barrier({3}, {0, 1, 2})},
      {{0, kStep}, {1, kStep}, {2, kStep}, {3, WaitsAt("train.py:70")}},
      {}},
     "rank 3 has not asked for allreduce 'grad' for 12 s: it asks for barrier instead, in "
     "train.py:70; ranks 0-2 wait in train.py:61 (step). Rank 3 has left the loop after 117 steps, "
     "and ranks 0-2 go on: uneven data (use hvd.join(), or a sampler that pads), or a "
     "branch that depends on the rank"},
    {"the others have fewer steps, and wait for longer",
     {{Barrier({0, 1}, {2}), Operation("grad", {2}, {0, 1}, 117)},
      {{0, WaitsAt("train.py:70")}, {1, WaitsAt("train.py:70")}, {2, kStep}},
      {}},
     "rank 2 has not asked for barrier for 12 s: it asks for allreduce 'grad' instead, in "
     "train.py:61 (step); ranks 0 and 1 wait in train.py:70. Ranks 0 and 1 have left the loop "
     "after 117 steps, and rank 2 goes on: uneven data (use hvd.join(), or a sampler that pads), "
     "or a "
     "branch that depends on the rank"},
    {"different operations under one name",
     {{Operation("grads", {0, 2}, {1}),
       [] {
         StalledOperation gather = Operation("grads", {1}, {0, 2});
         gather.shown = "allgather 'grads'";
         return gather;
       }()},
      {{0, kStep}, {1, kStep}, {2, kStep}},
      {}},
     "rank 1 has not asked for allreduce 'grads' for 12 s: it asks for allgather 'grads' instead, "
     "in train.py:61 (step); ranks 0 and 2 wait in train.py:61 (step). One name stands for "
     "different operations"},
    {"a rank has submitted another operation and computes",
     {{Operation("a", {0}, {1}, 3), Operation("b", {1}, {0}, 3)},
      {{0, kStep}, {1, At("train.py:88 (evaluate)")}},
      {}},
     "rank 1 has not asked for allreduce 'a' for 12 s: it has asked for allreduce 'b', is in "
     "train.py:88 (evaluate) and has submitted nothing for 14 s; rank 0 waits in train.py:61 "
     "(step). The ranks ask for the same operations in another order"},
    {"C code has the interpreter lock",
     {{Operation("a", {0}, {1})}, {{0, kStep}, {1, HoldsGil(3 * kSecond)}}, {}},
     "rank 1 has not asked for allreduce 'a' for 12 s: it has held the interpreter lock (GIL) "
     "in C code for at least 3 s and has submitted nothing for 20 s; rank 0 waits "
     "in train.py:61 (step)"},
    {"a rank is stopped",
     {{Operation("a", {0}, {1})},
      {{0, kStep}},
      {{1, "its process 4711 is stopped (SIGSTOP); `kill -CONT 4711` lets it go on"}}},
     "rank 1 has not asked for allreduce 'a' for 12 s: it does not answer: its process 4711 is "
     "stopped (SIGSTOP); `kill -CONT 4711` lets it go on; rank 0 waits in train.py:61 (step)"},
    {"a rank on another host is silent",
     {{Operation("a", {0}, {1})}, {{0, kStep}}, {{1, ""}}},
     "rank 1 has not asked for allreduce 'a' for 12 s: it does not answer: the process, its host "
     "or the network is held up; rank 0 waits in train.py:61 (step)"},
    {"a host is silent",
     {{Operation("a", {0, 1}, {2, 3})}, {{0, kStep}, {1, kStep}}, {}},
     "ranks 2 and 3 have not asked for allreduce 'a' for 12 s: they do not answer: the process, "
     "its "
     "host or the network is held up; ranks 0 and 1 wait in train.py:61 (step)"},
    {"the ranks that wait are in two places",
     {{Operation("a", {0, 1, 2}, {3})},
      {{0, kStep}, {1, WaitsAt("train.py:63")}, {2, kStep}, {3, At("train.py:88")}},
      {}},
     "rank 3 has not asked for allreduce 'a' for 12 s: it is in train.py:88 and has submitted "
     "nothing for 14 s; ranks 0 and 2 wait in train.py:61 (step); rank 1 waits in train.py:63"},
    {"nothing is known but who is missing",
     {{Operation("a", {0, 1}, {2})}, {}, {}},
     "rank 2 has not asked for allreduce 'a' for 12 s: it does not answer: the process, its host "
     "or the network is held up; ranks 0 and 1 wait"},
    {"an operation that the missing rank waits for in another set",
     {{Operation("a", {0, 1}, {2})}, {{0, kStep}, {1, kStep}, {2, WaitsAt("train.py:9")}}, {}},
     "rank 2 has not asked for allreduce 'a' for 12 s: it is in train.py:9 and has submitted "
     "nothing for 12 s; ranks 0 and 1 wait in train.py:61 (step)"},
};

TEST(Verdict, names_who_what_and_where) {
  for (const Fault& fault : kFaults)
    EXPECT_EQ(DecideStall(fault.facts), fault.verdict) << fault.name;
}

TEST(Verdict, tells_after_how_many_steps_a_rank_has_left) {
  const std::string advice =
      " If this rank still had work to do, the ranks did not run the same number of steps: use "
      "hvd.join(), or a sampler that pads.";
  const std::string ended = "rank 3 called hvd.shutdown() or reached the end of its program.";
  EXPECT_EQ(DecideEnd({3}, 0, {}, ""), ended + advice);
  EXPECT_EQ(DecideEnd({3}, 1, {}, ""), ended + advice);
  EXPECT_EQ(DecideEnd({3}, 117, {}, ""), ended + " That was after 117 steps." + advice);
  EXPECT_EQ(
      DecideEnd({3}, 117, {0, 1, 2}, "allreduce 'grad'"),
      ended + " That was after 117 steps, while ranks 0-2 wait in allreduce 'grad'." + advice);
  EXPECT_EQ(DecideEnd({3}, 0, {0}, "barrier"),
            ended + " That was while rank 0 waits in barrier." + advice);
}

}  // namespace
}  // namespace hvdlite::engine
