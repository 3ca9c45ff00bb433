/** Places the graph of a strategy on a plane. */
import { graphlib, layout } from "@dagrejs/dagre";
import type { Schema } from "./api.ts";

export interface Box {
  name: string;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Arrow {
  from: string;
  to: string;
  isQuestion: boolean;
  path: string;
  label: { x: number; y: number };
}

export interface Drawing {
  width: number;
  height: number;
  boxes: Box[];
  arrows: Arrow[];
}

interface Point {
  x: number;
  y: number;
}

const HEIGHT = 34;
/** Width of an arrow from a node to itself. */
const LOOP = 40;

export function draw(strategy: Schema<"Strategy">): Drawing {
  const graph = new graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: "TB", nodesep: 26, ranksep: 42, marginx: LOOP, marginy: 12 });
  graph.setDefaultEdgeLabel(() => ({}));
  const names = ["start", ...strategy.nodes, "end"];
  names.forEach((name) => graph.setNode(name, { width: Math.max(56, name.length * 7.6 + 26), height: HEIGHT }));
  strategy.entrances.forEach((it) => graph.setEdge("start", it, { width: 22, height: 14 }, "to"));
  const edges = strategy.edges.filter((it) => it.to !== it.from);
  edges.forEach((it) => graph.setEdge(it.from, it.to ?? "end", { width: 22, height: 14 }, it.kind));
  layout(graph);
  const { width = 0, height = 0 } = graph.graph();
  const boxes = names.map((name) => ({ name, ...(graph.node(name) as Omit<Box, "name">) }));
  const arrows = graph.edges().map(({ v, w, name }) => {
    const edge = graph.edge({ v, w, name }) as { points: Point[]; x?: number; y?: number };
    const middle = edge.points[Math.floor(edge.points.length / 2)];
    return {
      from: v,
      to: w,
      isQuestion: name === "ask",
      path: curve(edge.points),
      label: { x: edge.x ?? middle.x, y: edge.y ?? middle.y },
    };
  });
  const loops = strategy.edges
    .filter((it) => it.to === it.from)
    .map((it) =>
      loop(
        boxes.find((box) => box.name === it.from)!,
        it.kind === "ask",
      ),
    );
  return { width: width + LOOP, height, boxes, arrows: [...arrows, ...loops] };
}

/** An arrow from a node to itself: on its right, or on its left if it is a question. */
function loop(box: Box, isQuestion: boolean): Arrow {
  const side = isQuestion ? -1 : 1;
  const [x, reach] = [box.x + (side * box.width) / 2, box.x + side * (box.width / 2 + LOOP)];
  const path = `M${x},${box.y - 7}C${reach},${box.y - 24} ${reach},${box.y + 24} ${x},${box.y + 7}`;
  return { from: box.name, to: box.name, isQuestion, path, label: { x: x + side * LOOP * 0.75, y: box.y } };
}

/** A smooth path: quadratic curves between the middles of neighbouring points. */
function curve(points: Point[]): string {
  const [first, ...rest] = points;
  const last = rest.pop()!;
  let path = `M${first.x},${first.y}`;
  rest.forEach((point, nth) => {
    const next = rest[nth + 1];
    const end = next ? { x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 } : last;
    path += `Q${point.x},${point.y} ${end.x},${end.y}`;
  });
  return rest.length ? path : `${path}L${last.x},${last.y}`;
}
