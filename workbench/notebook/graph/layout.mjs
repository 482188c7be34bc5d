/**
 * Places boxes in layers: ranks by longest path, order in a rank by barycentre sweeps, places by least squares, long edges through lanes of
 * their own. Pure: it knows nothing of a page.
 *
 * @typedef {{ width: number, height: number, pin?: "first" | "last" }} Box   pinned boxes are ports: alone in the first or last rank
 * @typedef {[number, number]} Edge                                           from a box to one behind it in the list
 * @typedef {{ x: number, top: number, bottom: number }} Lane                 where the edges of one source pass a rank
 * @typedef {{ source: number, lanes: Lane[], ends: Map<number, number> }} Route
 *   the way from a source to all its readers: down the lanes, which they share; `ends` has the number of lanes that lead to each target
 */

export const GAP_X = 28;
export const GAP_Y = 40;
const LANE_GAP = 14;
const LARGEST = 60_000; // lanes; longer edges than this allows are drawn straight
const SWEEPS = 8;
const PLACING = 8;

/**
 * @param {Box[]} boxes   in an order of computation
 * @param {Edge[]} edges
 * @returns {{ width: number, height: number, x: number[], y: number[], rank: number[], tops: number[], bottoms: number[], routes: Route[] }}
 *   centres of the boxes across, their tops down; top and bottom of each rank
 */
export function layered(boxes, edges) {
  const unique = dedupe(edges, boxes.length);
  const rank = rankBoxes(boxes, unique);
  const graph = withLanes(boxes, unique, rank);
  const ranks = order(graph);
  placeAcross(graph, ranks);
  const { tops, bottoms, height } = placeDown(graph, ranks);
  let left = Infinity;
  let right = -Infinity;
  graph.nodes.forEach((node, index) => {
    left = Math.min(left, graph.x[index] - node.width / 2);
    right = Math.max(right, graph.x[index] + node.width / 2);
  });
  if (!boxes.length) left = right = 0;
  const x = boxes.map((_, index) => graph.x[index] - left);
  const y = boxes.map((box, index) => tops[rank[index]] + (bottoms[rank[index]] - tops[rank[index]] - box.height) / 2);
  const routes = graph.routes.map(({ source, lanes, ends }) => ({
    source,
    lanes: lanes.map((lane) => ({ x: graph.x[lane] - left, top: tops[graph.rank[lane]], bottom: bottoms[graph.rank[lane]] })),
    ends,
  }));
  return { width: right - left, height, x, y, rank, tops, bottoms, routes };
}

function dedupe(edges, count) {
  const seen = new Set();
  return edges.filter(([from, to]) => {
    const key = from * count + to;
    if (from >= to || seen.has(key)) return false;
    seen.add(key);
    return true;
  });
}

/** Longest path from the top; what reads nothing stands right above its first reader. */
export function rankBoxes(boxes, edges) {
  const hasFirst = boxes.some((box) => box.pin === "first");
  const rank = boxes.map((box) => (box.pin === "first" || !hasFirst ? 0 : 1));
  const into = lists(boxes.length);
  const outOf = lists(boxes.length);
  for (const [from, to] of edges) {
    into[to].push(from);
    outOf[from].push(to);
  }
  for (let index = 0; index < boxes.length; index++) {
    for (const from of into[index]) rank[index] = Math.max(rank[index], rank[from] + 1);
  }
  for (let index = boxes.length - 1; index >= 0; index--) {
    if (into[index].length || !outOf[index].length || boxes[index].pin) continue;
    rank[index] = Math.max(rank[index], least(outOf[index], rank) - 1);
  }
  if (boxes.some((box) => box.pin === "last")) {
    let deepest = 0;
    boxes.forEach((box, index) => {
      if (box.pin !== "last") deepest = Math.max(deepest, rank[index]);
    });
    boxes.forEach((box, index) => {
      if (box.pin === "last") rank[index] = deepest + 1;
    });
  }
  return rank;
}

/** The smallest of the values at some indices. */
function least(indices, values) {
  let smallest = Infinity;
  for (const index of indices) smallest = Math.min(smallest, values[index]);
  return smallest;
}

function lists(count) {
  return Array.from({ length: count }, () => []);
}

/** The graph with a lane in every rank that edges of a source pass; readers further down share the lanes of nearer ones. */
function withLanes(boxes, edges, rank) {
  const nodes = boxes.map(({ width }) => ({ width, lane: false, height: 0 }));
  boxes.forEach((box, index) => (nodes[index].height = box.height));
  const ranks = [...rank];
  const up = lists(boxes.length);
  const down = lists(boxes.length);
  const readers = lists(boxes.length);
  for (const [from, to] of edges) readers[from].push(to);
  const spans = readers.map((targets, source) => targets.reduce((most, target) => Math.max(most, rank[target] - rank[source] - 1), 0));
  let limit = Infinity;
  if (spans.reduce((sum, span) => sum + span, 0) > LARGEST) limit = fitting(spans, LARGEST);
  const link = (from, to) => {
    down[from].push(to);
    up[to].push(from);
  };
  const routes = [];
  readers.forEach((targets, source) => {
    if (!targets.length) return;
    const route = { source, lanes: [], ends: new Map() };
    const nearFirst = [...targets].sort((a, b) => rank[a] - rank[b]);
    for (const target of nearFirst) {
      const length = rank[target] - rank[source] - 1;
      if (length > limit) {
        route.ends.set(target, 0);
        continue;
      }
      while (route.lanes.length < length) {
        const lane = nodes.length;
        nodes.push({ width: 0, lane: true, height: 0 });
        ranks.push(rank[source] + route.lanes.length + 1);
        up.push([]);
        down.push([]);
        link(route.lanes.length ? route.lanes[route.lanes.length - 1] : source, lane);
        route.lanes.push(lane);
      }
      link(length ? route.lanes[length - 1] : source, target);
      route.ends.set(target, length);
    }
    routes.push(route);
  });
  return { nodes, rank: ranks, up, down, routes, x: new Array(nodes.length).fill(0) };
}

/** The longest span that can be allowed so that all allowed ones together are no more than `most`. */
function fitting(spans, most) {
  let sum = 0;
  for (const span of [...spans].sort((a, b) => a - b)) {
    sum += span;
    if (sum > most) return span - 1;
  }
  return Infinity;
}

/** Lists of nodes by rank, ordered so that few edges cross. */
function order(graph) {
  const ranks = lists(graph.nodes.length ? Math.max(0, graph.rank.reduce((most, rank) => Math.max(most, rank), 0)) + 1 : 0);
  const place = new Array(graph.nodes.length).fill(0);
  for (const node of startOrder(graph)) ranks[graph.rank[node]].push(node);
  const number = () => ranks.forEach((nodes) => nodes.forEach((node, index) => (place[node] = index)));
  number();
  const sweeps = graph.nodes.length > 20_000 ? 3 : SWEEPS;
  let best = null;
  let fewest = Infinity;
  for (let sweep = 0; sweep < sweeps; sweep++) {
    const downwards = sweep % 2 === 0;
    const neighbours = downwards ? graph.up : graph.down;
    for (let step = 1; step < ranks.length; step++) {
      const nodes = ranks[downwards ? step : ranks.length - 1 - step];
      if (nodes.length < 2) continue;
      const key = new Map();
      for (const node of nodes) key.set(node, mean(neighbours[node], place, place[node]));
      nodes.sort((a, b) => key.get(a) - key.get(b) || place[a] - place[b]);
      nodes.forEach((node, index) => (place[node] = index));
    }
    const crossings = countCrossings(graph, ranks, place);
    if (crossings < fewest) {
      fewest = crossings;
      best = ranks.map((nodes) => [...nodes]);
      if (!crossings) break;
    }
  }
  return best ?? ranks;
}

/** From each node without a reader before it straight down: what belongs together begins side by side. */
function startOrder(graph) {
  const seen = new Uint8Array(graph.nodes.length);
  const found = [];
  for (let root = 0; root < graph.nodes.length; root++) {
    if (seen[root] || graph.up[root].length) continue;
    const waiting = [root];
    while (waiting.length) {
      const node = waiting.pop();
      if (seen[node]) continue;
      seen[node] = 1;
      found.push(node);
      for (let index = graph.down[node].length - 1; index >= 0; index--) waiting.push(graph.down[node][index]);
    }
  }
  return found;
}

function mean(indices, values, otherwise) {
  if (!indices.length) return otherwise;
  let sum = 0;
  for (const index of indices) sum += values[index];
  return sum / indices.length;
}

/** Crossings between neighbouring ranks: inversions, counted with a tree of sums. */
export function countCrossings(graph, ranks, place) {
  let crossings = 0;
  for (let rank = 0; rank + 1 < ranks.length; rank++) {
    const below = ranks[rank + 1].length;
    if (below < 2 && ranks[rank].length < 2) continue;
    const tree = new Int32Array(below + 1);
    let inserted = 0;
    for (const node of ranks[rank]) {
      const targets = graph.down[node].map((target) => place[target]).sort((a, b) => a - b);
      for (const target of targets) {
        let before = 0;
        for (let index = target + 1; index > 0; index -= index & -index) before += tree[index];
        crossings += inserted - before;
      }
      for (const target of targets) {
        inserted++;
        for (let index = target + 1; index <= below; index += index & -index) tree[index]++;
      }
    }
  }
  return crossings;
}

/** Centres: each rank is put as near as it can to where its neighbours are, without overlap. Boxes stay in line
 * with boxes, lanes with lanes; lanes, and boxes that read nothing, make room. */
function placeAcross(graph, ranks) {
  for (const nodes of ranks) {
    let x = 0;
    nodes.forEach((node, index) => {
      if (index) x += distance(graph.nodes[nodes[index - 1]], graph.nodes[node]);
      graph.x[node] = x;
    });
    for (const node of nodes) graph.x[node] -= x / 2;
  }
  const rounds = graph.nodes.length > 20_000 ? 4 : PLACING;
  const firm = graph.nodes.map(({ lane }, node) => (lane ? 0 : graph.up[node].length ? 2 : 1));
  for (let round = 0; round < rounds; round++) {
    const downwards = round % 2 === 0;
    for (let step = 0; step < ranks.length; step++) {
      const nodes = ranks[downwards ? step : ranks.length - 1 - step];
      const both = round >= rounds - 2;
      const wanted = nodes.map((node) => {
        const near = both ? [...graph.up[node], ...graph.down[node]] : downwards ? graph.up[node] : graph.down[node];
        const alike = near.filter((other) => firm[other] === firm[node]);
        return median(alike.length ? alike : near, graph.x, graph.x[node]);
      });
      separate(nodes, wanted, graph, firm);
    }
  }
}

function median(indices, values, otherwise) {
  if (!indices.length) return otherwise;
  if (indices.length === 1) return values[indices[0]];
  const sorted = indices.map((index) => values[index]).sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

function distance(left, right) {
  return (left.width + right.width) / 2 + (left.lane && right.lane ? LANE_GAP : left.lane || right.lane ? (GAP_X + LANE_GAP) / 2 : GAP_X);
}

/** The places nearest to the wanted ones (least squares) that keep order and distance: neighbours that get in each other's way move together. */
function separate(nodes, wanted, graph, firm) {
  const offsets = [0];
  for (let index = 1; index < nodes.length; index++) {
    offsets.push(offsets[index - 1] + distance(graph.nodes[nodes[index - 1]], graph.nodes[nodes[index]]));
  }
  const groups = [];
  nodes.forEach((node, index) => {
    const weight = firm[node] === 2 ? 60 : 1;
    let group = { sum: (wanted[index] - offsets[index]) * weight, weight, count: 1 };
    while (groups.length && groups[groups.length - 1].sum / groups[groups.length - 1].weight > group.sum / group.weight) {
      const other = groups.pop();
      group = { sum: other.sum + group.sum, weight: other.weight + group.weight, count: other.count + group.count };
    }
    groups.push(group);
  });
  let index = 0;
  for (const { sum, weight, count } of groups) {
    for (let step = 0; step < count; step++, index++) graph.x[nodes[index]] = sum / weight + offsets[index];
  }
}

/** Tops and bottoms of the ranks; ranks between which many edges change their place are further apart. */
function placeDown(graph, ranks) {
  const tops = [];
  const bottoms = [];
  let y = 0;
  ranks.forEach((nodes, rank) => {
    const height = nodes.reduce((most, node) => Math.max(most, graph.nodes[node].height), 0);
    tops.push(y);
    bottoms.push(y + height);
    let widest = 0;
    for (const node of nodes) {
      for (const target of graph.down[node]) widest = Math.max(widest, Math.abs(graph.x[node] - graph.x[target]));
    }
    const below = rank + 1 < ranks.length ? ranks[rank + 1].some((node) => graph.nodes[node].height > 0) : false;
    const gap = rank + 1 < ranks.length ? GAP_Y * (height && below ? 1 : 0.5) + Math.min(40, widest / 14) : 0;
    y += height + Math.round(gap);
  });
  return { tops, bottoms, height: y };
}
