/** Highlighting of what the engines write: Python, C and CUDA come from CodeMirror; LLVM IR and assembly are small readers of their own. */

import { cpp } from "@codemirror/lang-cpp";
import { python } from "@codemirror/lang-python";
import { StreamLanguage } from "@codemirror/language";

const LLVM_WORDS = new Set(
  ("define declare private internal external global constant target triple datalayout source_filename attributes unnamed_addr local_unnamed_addr nounwind " +
    "uwtable noalias nocapture readonly writeonly align to inbounds nuw nsw exact fast nnan ninf nsz arcp contract afn reassoc tail musttail null undef " +
    "poison zeroinitializer true false distinct metadata type").split(" "),
);
const LLVM_OPERATIONS = new Set(
  ("ret br switch indirectbr invoke unreachable fneg add fadd sub fsub mul fmul udiv sdiv fdiv urem srem frem shl lshr ashr and or xor extractelement " +
    "insertelement shufflevector extractvalue insertvalue alloca load store fence cmpxchg atomicrmw getelementptr trunc zext sext fptrunc fpext fptoui fptosi " +
    "uitofp sitofp ptrtoint inttoptr bitcast addrspacecast icmp fcmp phi select call va_arg freeze").split(" "),
);

const llvm = {
  name: "llvm",
  token(stream) {
    if (stream.eatSpace()) return null;
    if (stream.match(";")) return stream.skipToEnd(), "comment";
    if (stream.match(/^c?"[^"]*"?/)) return "string";
    if (stream.match(/^[%@](?:"[^"]*"|[\w.$-]+)/)) return "variableName";
    if (stream.match(/^[#!][\w.]*/)) return "meta";
    if (stream.match(/^(?:void|half|bfloat|float|double|fp128|ptr|label|token|i\d+)\b/)) return "typeName";
    if (stream.match(/^[\w.$-]+:/)) return "labelName";
    if (stream.match(/^-?(?:0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?)\b/)) return "number";
    const word = stream.match(/^[A-Za-z_][\w.]*/);
    if (word) return LLVM_OPERATIONS.has(word[0]) ? "keyword" : LLVM_WORDS.has(word[0]) ? "modifier" : null;
    stream.next();
    return null;
  },
};

/** Assembly of any machine, PTX and SASS: what is a comment, a label, a directive, an instruction, a register, a number. */
const assembly = {
  name: "assembly",
  startState: () => ({ first: true }),
  token(stream, state) {
    if (stream.sol()) state.first = true;
    if (stream.eatSpace()) return null;
    if (stream.match("//") || stream.match(/^#(?![\w])/) || stream.match(";;")) return stream.skipToEnd(), "comment";
    if (stream.match("/*")) {
      if (!stream.match(/^.*?\*\//)) stream.skipToEnd();
      return "comment";
    }
    if (stream.match(/^"[^"]*"?/)) return "string";
    if (stream.match(/^[\w.$]+:/)) return "labelName";
    if (stream.match(/^@!?%?U?P[\dT]+|^@!?%p\d+/)) return "modifier";
    if (stream.match(/^%[\w.]+/)) return "variableName";
    if (stream.match(/^-?(?:0[xX][0-9a-fA-F]+|0f[0-9a-fA-F]+|\d+(?:\.\d+)?)\b/)) return "number";
    if (state.first && stream.match(/^\.[\w.]+/)) return (state.first = false), "meta";
    const word = stream.match(/^[A-Za-z_][\w.$]*/);
    if (word) {
      if (state.first) return (state.first = false), "keyword";
      return /^(?:U?R\d+|RZ|U?P\d+|PT|[re]?[abcd]x|[re]?[sd]i|[re]?[sb]p|[xyz]mm\d+|r\d+[dwb]?|k[0-7]|[wxvqsd]\d+)$/.test(word[0]) ? "variableName" : null;
    }
    stream.next();
    return null;
  },
};

const MAKERS = {
  python: () => python().language,
  cuda: () => cpp().language,
  c: () => cpp().language,
  llvm: () => StreamLanguage.define(llvm),
  asm: () => StreamLanguage.define(assembly),
  ptx: () => StreamLanguage.define(assembly),
  sass: () => StreamLanguage.define(assembly),
};
const made = new Map();

/** CodeMirror's extension for a language of `ViewInfo`; nothing for plain text. */
export function highlighting(language) {
  if (!(language in MAKERS)) return [];
  if (!made.has(language)) made.set(language, MAKERS[language]());
  return made.get(language);
}
