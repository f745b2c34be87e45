// What the net communicator promises beyond right sums: the same bits everywhere and every time,
// one rounding for 16-bit floats, Adasum, lost peers by name, and waits that are exactly what is
// waited for.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include "kernels/adasum.h"
#include "kernels/reduce.h"
#include "net_case.h"
#include "testing/in_threads.h"
#include "testing/says.h"
#include "transport/tcp/mesh.h"

namespace hvdlite::comm::net_testing {
namespace {

using Floats = std::vector<float>;

std::vector<Floats> RandomVectors(int members, size_t elements, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<Floats> vectors(static_cast<size_t>(members), Floats(elements));
  for (Floats& vector : vectors) {
    for (float& value : vector) value = normal(random);
  }
  return vectors;
}

Batch Allreduce(DType dtype, std::vector<Piece> pieces, ReduceOp op = ReduceOp::kSum) {
  Batch batch;
  batch.kind = OpKind::kAllreduce;
  batch.dtype = dtype;
  batch.reduce = {dtype, op};
  batch.pieces = std::move(pieces);
  return batch;
}

// Each member's result of an allreduce of pieces of `sizes` cut from its vector.
std::vector<Floats> Results(NetWorld* net, const std::vector<Floats>& vectors,
                            const std::vector<int64_t>& sizes, bool adasum = false,
                            const kernels::ReduceSpec& reduce = {}) {
  std::vector<Floats> results(vectors.size(), Floats(vectors[0].size()));
  const auto statuses = net->Run([&](int member, Communicator* communicator) {
    const auto m = static_cast<size_t>(member);
    std::vector<Piece> pieces;
    int64_t at = 0;
    for (int64_t size : sizes) {
      pieces.push_back({vectors[m].data() + at, results[m].data() + at, size, {}});
      at += size;
    }
    Batch batch = Allreduce(DType::kFloat32, std::move(pieces));
    batch.adasum = adasum;
    batch.reduce = reduce;
    auto work = communicator->Start(batch);
    return Drive(communicator, work.get());
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
  return results;
}

bool SameBits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(NetPromises, EveryMemberAndEveryRunGivesTheSameBits) {
  const std::vector<int64_t> sizes = {4001, 1, 0, 17000, 5};
  for (int members : {2, 3, 5, 8}) {
    const auto vectors = RandomVectors(members, 21007, 3);
    for (Algorithm algorithm :
         {Algorithm::kOneShot, Algorithm::kDirect, Algorithm::kGather, Algorithm::kAdasum}) {
      const bool adasum = algorithm == Algorithm::kAdasum;
      Floats first;
      for (uint32_t run = 0; run < 20; ++run) {
        net::Options options;
        options.force = algorithm;
        options.piece_bytes = 4 << 10;
        Faults faults;
        faults.seed = run;
        faults.most = 3000 + 1000 * run;
        faults.stall = 0.1;
        NetWorld net(members, options, faults);
        const auto results = Results(&net, vectors, sizes, adasum);
        if (run == 0) first = results[0];
        for (const Floats& result : results)
          ASSERT_TRUE(SameBits(result, first)) << Name(algorithm) << " run " << run;
      }
    }
  }
}

TEST(NetPromises, EveryAlgorithmIsOneReduceInMemberOrder) {
  for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat64}) {
    for (Algorithm algorithm : {Algorithm::kOneShot, Algorithm::kDirect, Algorithm::kGather}) {
      const int members = 5;
      constexpr int64_t kCount = 5003;
      const size_t bytes = kCount * SizeOf(dtype);
      std::mt19937 random(9);
      std::vector<Bytes> in(members, Bytes(bytes)), out(members, Bytes(bytes));
      std::vector<const void*> sources;
      for (Bytes& vector : in) {
        for (int64_t i = 0; i < kCount; ++i) {
          Put(dtype, std::normal_distribution<double>()(random),
              vector.data() + static_cast<size_t>(i) * SizeOf(dtype));
        }
        sources.push_back(vector.data());
      }
      kernels::ReduceSpec spec{dtype, ReduceOp::kAverage, 0.3, 1.7, members};
      Bytes expected(bytes);
      kernels::Reduce(spec, expected.data(), nullptr, sources.data(), members, kCount);
      net::Options options;
      options.force = algorithm;
      options.piece_bytes = 1 << 10;
      options.scratch_bytes = 1 << 10;
      NetWorld net(members, options);
      const auto statuses = net.Run([&](int member, Communicator* communicator) {
        const auto m = static_cast<size_t>(member);
        Batch batch = Allreduce(dtype, {{in[m].data(), out[m].data(), kCount, {}}});
        batch.reduce = spec;
        auto work = communicator->Start(batch);
        return Drive(communicator, work.get());
      });
      for (const Status& status : statuses) ASSERT_TRUE(status.ok()) << status.ToString();
      for (const Bytes& result : out) EXPECT_EQ(result, expected);
    }
  }
}

std::vector<double> AdasumOf(const std::vector<double>& a, const std::vector<double>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) ab += a[i] * b[i], aa += a[i] * a[i], bb += b[i] * b[i];
  const double ca = aa < std::sqrt(std::numeric_limits<double>::min()) ? 1 : 1 - ab / (2 * aa);
  const double cb = bb < std::sqrt(std::numeric_limits<double>::min()) ? 1 : 1 - ab / (2 * bb);
  std::vector<double> result(a.size());
  for (size_t i = 0; i < a.size(); ++i) result[i] = ca * a[i] + cb * b[i];
  return result;
}

// The order that adasum.cc documents: members beyond the power of two first, then neighbours, then
// pairs of pairs.
std::vector<double> AdasumReference(std::vector<std::vector<double>> vectors) {
  size_t core = 1;
  while (core * 2 <= vectors.size()) core *= 2;
  for (size_t i = core; i < vectors.size(); ++i)
    vectors[i - core] = AdasumOf(vectors[i - core], vectors[i]);
  for (size_t distance = 1; distance < core; distance *= 2) {
    for (size_t i = 0; i < core; i += 2 * distance)
      vectors[i] = AdasumOf(vectors[i], vectors[i + distance]);
  }
  return vectors[0];
}

TEST(NetPromises, AdasumIsTheFormulaPerTensorForAnyNumberOfMembers) {
  const std::vector<int64_t> sizes = {1, 777, 0, 3, 12000};
  for (int members : {1, 2, 3, 4, 5, 6, 7, 8, 9}) {
    const auto vectors = RandomVectors(members, 12781, 4);
    net::Options options;
    options.piece_bytes = 4 << 10;
    NetWorld net(members, options);
    const auto results = Results(&net, vectors, sizes, /*adasum=*/true);
    int64_t at = 0;
    for (int64_t size : sizes) {
      std::vector<std::vector<double>> parts;
      for (const Floats& vector : vectors)
        parts.emplace_back(vector.begin() + at, vector.begin() + at + size);
      const auto expected = AdasumReference(parts);
      for (const Floats& result : results) {
        for (size_t i = 0; i < expected.size(); ++i) {
          ASSERT_NEAR(result[static_cast<size_t>(at) + i], expected[i],
                      1e-5 * (1 + std::fabs(expected[i])))
              << members;
        }
      }
      at += size;
    }
  }
}

TEST(NetPromises, AdasumOfOrthogonalVectorsIsTheirSumAndOfEqualOnesThemselves) {
  NetWorld net(2);
  EXPECT_EQ(Results(&net, {{1, 0}, {0, 2}}, {2}, true)[0], (Floats{1, 2}));
  EXPECT_EQ(Results(&net, {{3, 4}, {3, 4}}, {2}, true)[1], (Floats{3, 4}));
}

TEST(NetPromises, AdasumScalesEachContributionOnceAndTheResultOnce) {
  for (int members : {1, 2, 3, 5}) {
    const auto vectors = RandomVectors(members, 3001, 8);
    NetWorld net(members);
    const auto plain = Results(&net, vectors, {1000, 2001}, /*adasum=*/true);
    // Adasum of halves is half of Adasum, to the last bit: only exponents change.
    const auto scaled = Results(&net, vectors, {1000, 2001}, /*adasum=*/true,
                                {DType::kFloat32, ReduceOp::kSum, 0.5, 4, 2});
    for (const Floats& result : scaled) EXPECT_TRUE(SameBits(result, plain[0]));
  }
}

TEST(NetPromises, AdasumOfIntegersIsRefused) {
  NetWorld net(2);
  const auto statuses = net.Run([](int, Communicator* communicator) {
    Batch batch = Allreduce(DType::kInt32, {});
    batch.adasum = true;
    auto work = communicator->Start(batch);
    return Drive(communicator, work.get());
  });
  for (const Status& status : statuses) EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
}

TEST(NetPromises, APeerThatDiesOnTheWayIsNamedByItsNeighbours) {
  for (Algorithm algorithm : {Algorithm::kDirect, Algorithm::kGather, Algorithm::kOneShot}) {
    const int members = 4;
    net::Options options;
    options.force = algorithm;
    NetWorld net(members, options);
    const auto vectors = RandomVectors(members, 1 << 18, 5);
    std::vector<Floats> results = vectors;
    const auto statuses = net.Run([&](int member, Communicator* communicator) {
      const auto m = static_cast<size_t>(member);
      const Batch batch =
          Allreduce(DType::kFloat32, {{results[m].data(), results[m].data(), 1 << 18, {}}});
      auto work = communicator->Start(batch);
      if (member == 2) {  // turns a little, then dies
        for (int i = 0; i < 5; ++i) work->Advance();
        work.reset();
        for (auto& link : net.links()[2]) link.reset();
        return Status::Ok();
      }
      const Status status = Drive(communicator, work.get());
      // As a process does that gives up: whoever waits for this member learns it at once.
      work.reset();
      for (auto& link : net.links()[m]) link.reset();
      return status;
    });
    int naming = 0;
    for (int member : {0, 1, 3}) {
      EXPECT_EQ(statuses[static_cast<size_t>(member)].code(), StatusCode::kPeerLost)
          << Name(algorithm);
      naming += statuses[static_cast<size_t>(member)].peer() == 2;
    }
    EXPECT_GE(naming, 1) << Name(algorithm);
  }
}

TEST(NetPromises, AnInjectedEndIsPassedOnWithThePeersName) {
  Links links = SocketPairLinks(3);
  Faults faults;
  faults.lost_after = 1000;
  links[0][2] = std::make_unique<FaultTransport>(std::move(links[0][2]), faults);
  net::Options options;
  options.force = Algorithm::kDirect;
  NetWorld net(std::move(links), options, {});
  const auto vectors = RandomVectors(3, 10000, 6);
  std::vector<Floats> results = vectors;
  const auto statuses = net.Run([&](int member, Communicator* communicator) {
    const auto m = static_cast<size_t>(member);
    const Batch batch =
        Allreduce(DType::kFloat32, {{results[m].data(), results[m].data(), 10000, {}}});
    auto work = communicator->Start(batch);
    const Status status = Drive(communicator, work.get());
    work.reset();
    for (auto& link : net.links()[m]) link.reset();
    return status;
  });
  EXPECT_TRUE(IsLossOf(2, statuses[0]));
}

TEST(NetPromises, WaitsAreExactlyWhatTheWorkWaitsFor) {
  NetWorld net(3);
  float value = 1, result = 0;
  const Batch batch = Allreduce(DType::kFloat32, {{&value, &result, 1, {}}});
  net::Communicator* me = net.member(0);
  const auto work = me->Start(batch);
  Progress progress = Progress::kSome;
  while (progress == Progress::kSome) progress = work->Advance();
  ASSERT_EQ(progress, Progress::kNone);
  std::vector<pollfd> fds;
  me->AddPollFds(&fds);
  ASSERT_EQ(fds.size(), 2u);  // the four bytes are sent; both peers' are awaited
  for (const pollfd& fd : fds) EXPECT_EQ(fd.events, POLLIN);
}

TEST(NetPromises, AStalledSendIsWaitedForAndAFinishedWorkWaitsForNothing) {
  NetWorld net(2);
  std::vector<char> data(8 << 20);
  Batch batch;
  batch.kind = OpKind::kBroadcast;
  batch.pieces = {{data.data(), data.data(), static_cast<int64_t>(data.size()), {}}};
  net::Communicator* root = net.member(0);
  const auto work = root->Start(batch);
  while (work->Advance() == Progress::kSome) {
  }
  std::vector<pollfd> fds;
  root->AddPollFds(&fds);
  ASSERT_EQ(fds.size(), 1u);
  EXPECT_EQ(fds[0].events, POLLOUT);
  std::thread peer([&] {
    std::vector<char> got(data.size());
    Batch mine = batch;
    mine.pieces[0].output = got.data();
    auto other = net.member(1)->Start(mine);
    EXPECT_TRUE(Drive(net.member(1), other.get()).ok());
  });
  EXPECT_TRUE(Drive(root, work.get()).ok());
  peer.join();
  fds.clear();
  root->AddPollFds(&fds);
  EXPECT_TRUE(fds.empty());
}

TEST(NetPromises, ExplainsItself) {
  NetWorld net(4);
  float value = 1, result = 0;
  const Batch batch = Allreduce(DType::kFloat32, {{&value, &result, 1, {}}});
  EXPECT_EQ(net.member(0)->Explain(batch).find("one-shot: 4 B among 4 members"), 0u)
      << net.member(0)->Explain(batch);
}

TEST(NetPromises, WorksOverARealLoopbackMesh) {
  constexpr int kMembers = 4;
  std::vector<std::unique_ptr<transport::tcp::LinkListener>> doors(kMembers);
  std::vector<transport::tcp::MeshPeer> peers;
  for (int i = 0; i < kMembers; ++i) {
    const transport::tcp::LinkIdentity me{static_cast<uint32_t>(i)};
    ASSERT_TRUE(
        transport::tcp::LinkListener::Open({"127.0.0.1", 0}, 16, me, nullptr, &doors[i]).ok());
    peers.push_back({i, {doors[i]->endpoint()}});
  }
  Links links(kMembers);
  InThreads(kMembers, [&](int i) {
    std::vector<std::unique_ptr<transport::tcp::Link>> row;
    const Status status = transport::tcp::ConnectMesh(
        0, peers, doors[i].get(), Deadline::AfterSeconds(30 * testing::Patience()), &row);
    EXPECT_TRUE(status.ok()) << status.ToString();
    for (auto& link : row) links[static_cast<size_t>(i)].push_back(std::move(link));
  });
  if (HasFailure()) return;
  NetWorld net(std::move(links), {}, {});
  std::vector<Case> cases;
  uint32_t seed = 0;
  for (OpKind kind : {OpKind::kAllreduce, OpKind::kBroadcast, OpKind::kAllgather,
                      OpKind::kReducescatter, OpKind::kAlltoall, OpKind::kBarrier}) {
    for (const std::vector<int64_t>& sizes :
         std::vector<std::vector<int64_t>>{{1}, {100000, 3}, {700001}}) {
      Case c;
      c.kind = kind;
      c.members = kMembers;
      c.sizes = sizes;
      c.seed = ++seed;
      c.root = 2;
      cases.push_back(c);
    }
  }
  RunCases(&net, cases);
}

}  // namespace
}  // namespace hvdlite::comm::net_testing
